"""The public keys that tokens are verified with: a JWKS document in a file or at a URL, read again when it changes."""

import asyncio
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any

import jwt
import msgspec
from msgspec import Struct

from services.gateway.errors import KeysUnavailable
from services.gateway.settings import HttpPort

MOST_BYTES = 256 * 1024
MOST_KEYS = 100
FETCH_S = 5.0
# A token with an unknown key id makes us look for new keys, but not more often than this: anybody can write key ids.
LOOK_AGAIN_S = 10.0
# What a key of this type may verify. Symmetric keys are never taken from a document that others can read.
ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
LEAST_RSA_BITS = 2048


class SigningKey(Struct, frozen=True):
    """A public key with its id and the one algorithm that it verifies."""

    key_id: str | None
    algorithm: str
    key: Any


class KeySet(Struct, frozen=True):
    """The usable keys of one JWKS document."""

    keys: tuple[SigningKey, ...] = ()

    def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """The key of that id; of a token without one, the only key that could be meant."""
        fitting = [key for key in self.keys if key.algorithm == algorithm]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.key_id == key_id), None)


def read_keys(document: bytes) -> KeySet:
    """Keys that are for something else or of another kind are left out. Raises KeysUnavailable for no JWKS at all."""
    try:
        listed = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, RecursionError) as error:
        raise KeysUnavailable(f"the JWKS document is not JSON: {error}") from None
    if not isinstance(listed, list):
        raise KeysUnavailable("the JWKS document has no list `keys`")
    read = (_signing_key(entry) for entry in listed[:MOST_KEYS] if isinstance(entry, dict))
    return KeySet(tuple(key for key in read if key is not None))


def _signing_key(entry: Mapping[str, Any]) -> SigningKey | None:
    algorithm = ALGORITHMS.get(str(entry.get("kty")))
    key_id = entry.get("kid")
    if algorithm is None or entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    if key_id is not None and not isinstance(key_id, str):
        return None
    if algorithm == "ES256" and entry.get("crv") != "P-256":
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "n", "e", "crv", "x", "y")}
    try:
        key = jwt.PyJWK(public, algorithm=algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if algorithm == "RS256" and key.key_size < LEAST_RSA_BITS:
        return None
    return SigningKey(key_id, algorithm, key)


class KeyFile:
    """A JWKS file; a changed one is read with the next token."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read_at: tuple[int, int] | None = None
        self._keys = KeySet()

    async def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """Raises KeysUnavailable if the file cannot be read."""
        try:
            status = os.stat(self._path)
            written_at = status.st_mtime_ns, status.st_ino
            if written_at != self._read_at:
                with open(self._path, "rb") as file:
                    self._keys = read_keys(file.read(MOST_BYTES))
                self._read_at = written_at
        except OSError as error:
            raise KeysUnavailable(f"the JWKS file cannot be read: {error.strerror}") from None
        return self._keys.find(key_id, algorithm)


class KeyUrl:
    """A JWKS document at a URL: fetched again after a time, and when a token names a key that is not in it."""

    def __init__(self, url: str, *, refresh_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._refresh_s, self._clock = url, refresh_s, clock
        self._keys: KeySet | None = None
        self._read_at = self._tried_at = -1e9
        self._turn = asyncio.Lock()

    async def find(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """Raises KeysUnavailable if there are no keys, or none fresh enough, and the URL does not give any."""
        if self._clock() - self._read_at > self._refresh_s:
            await self._fetch(since=self._read_at)
        found = None if self._keys is None else self._keys.find(key_id, algorithm)
        if found is None and self._clock() - self._tried_at > LOOK_AGAIN_S:
            await self._fetch(since=self._read_at)
            found = None if self._keys is None else self._keys.find(key_id, algorithm)
        return found

    async def _fetch(self, since: float) -> None:
        async with self._turn:
            if self._read_at != since:
                return  # somebody else did, while we waited
            # While the URL does not answer, the keys known are good for ten times as long; then nothing is verified.
            stale = self._keys is None or self._clock() - self._read_at > 10 * self._refresh_s
            if self._clock() - self._tried_at < min(LOOK_AGAIN_S, self._refresh_s):
                if stale:
                    raise KeysUnavailable("the JWKS URL did not answer a moment ago")
                return
            self._tried_at = self._clock()
            try:
                self._keys = read_keys(await asyncio.to_thread(_get, self._url))
            except KeysUnavailable:
                if stale:
                    raise
                return
            self._read_at = self._clock()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from the address that was configured, from nowhere else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _get(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(url, timeout=FETCH_S) as answer:
            document: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise KeysUnavailable(f"the JWKS URL answers {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:
        raise KeysUnavailable(f"the JWKS URL does not answer ({type(error).__name__})") from None
    if len(document) > MOST_BYTES:
        raise KeysUnavailable("the JWKS document is too large")
    return document


def signing_keys(settings: HttpPort) -> KeyFile | KeyUrl | None:
    """Where the settings say that the keys are; None: tokens are not verified by public keys."""
    if settings.jwks_file is not None:
        return KeyFile(settings.jwks_file)
    return None if settings.jwks_url is None else KeyUrl(settings.jwks_url, refresh_s=settings.jwks_refresh_s)
