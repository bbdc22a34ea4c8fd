"""Tokens (JWT): their signature, their times, their issuer and audience."""

from typing import Any, Protocol

import jwt
from msgspec import Struct

HMAC, BY_KEY = "HS256", ("RS256", "ES256")


class BadToken(Exception):
    """A token that proves nothing; the reason is for the log, and holds nothing of the token."""


class VerifyingKey(Protocol):
    @property
    def key(self) -> Any: ...


class Keys(Protocol):
    """Public keys by id and algorithm."""

    async def find(self, key_id: str | None, algorithm: str) -> VerifyingKey | None: ...


class TokenRules(Struct, frozen=True, kw_only=True):
    """What a token must be beside well signed."""

    issuer: str | None = None
    audience: tuple[str, ...] = ()
    leeway_s: float = 5.0
    most_bytes: int = 8 * 1024


class Tokens:
    """Verifies tokens by a secret (HS256), by public keys (RS256, ES256), or both.

    The algorithm decides which kind of key is used, and a kind of key takes one algorithm only: so a public key is
    never taken for a secret, and `none` has no key at all (RFC 8725).
    """

    def __init__(self, rules: TokenRules, *, secret: str | None, keys: Keys | None) -> None:
        self._rules, self._secret, self._keys = rules, secret or None, keys

    @property
    def accepted(self) -> bool:
        """Whether any token can be verified here."""
        return self._secret is not None or self._keys is not None

    async def verify(self, token: str) -> dict[str, Any]:
        """The claims. Raises BadToken; what the keys raise passes."""
        if len(token) > self._rules.most_bytes:
            raise BadToken("the token is too long")
        algorithm, key = await self._key_for(_header(token))
        required = ["exp", "sub"] + (["iss"] if self._rules.issuer is not None else [])
        if self._rules.audience:
            required.append("aud")
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self._rules.issuer,
                audience=self._rules.audience or None,
                leeway=self._rules.leeway_s,
                options={"require": required},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise BadToken(type(error).__name__) from None

    async def _key_for(self, header: dict[str, Any]) -> tuple[str, Any]:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if "crit" in header or "b64" in header:
            raise BadToken("the token uses extensions that are not understood")
        if key_id is not None and not isinstance(key_id, str):
            raise BadToken("the token's key id is not text")
        if algorithm == HMAC and self._secret is not None:
            return HMAC, self._secret
        if algorithm in BY_KEY and self._keys is not None:
            found = await self._keys.find(key_id, algorithm)
            if found is None:
                raise BadToken("the token's key is not known")
            return algorithm, found.key
        raise BadToken("the token's algorithm is not accepted")


def _header(token: str) -> dict[str, Any]:
    try:
        return jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise BadToken(type(error).__name__) from None
