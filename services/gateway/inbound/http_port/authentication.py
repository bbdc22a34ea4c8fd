"""Who calls: Basic, verified by PostgreSQL, or a token; once for all HTTP doors."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from services.gateway.core.failed_logins import FailedLogins
from services.gateway.core.http_identity import (
    BadClaims,
    ClaimNames,
    HttpIdentity,
    RoleFacts,
    of_claims,
    of_login,
    refusal_of,
)
from services.gateway.errors import KeysUnavailable, LoginRefused, LoginUnknown
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.inbound.http_port.tokens import BadToken, Tokens
from services.gateway.metrics import HttpMetrics

REFUSED = "the credentials were refused"
MISSING = "credentials are needed: Basic with a PostgreSQL login, or a Bearer token"
MOST_BASIC_BYTES = 4 * 1024
MOST_REMEMBERED = 10_000


class Logins(Protocol):
    """Verifies a password; the answer is the login's name. Raises LoginRefused and LoginUnknown."""

    async def verify(self, user: str, password: str) -> str: ...


class Roles(Protocol):
    """What PostgreSQL says about a role. Raises LoginUnknown."""

    async def facts(self, name: str) -> RoleFacts | None: ...


class AuthenticationRules(Struct, frozen=True, kw_only=True):
    claims: ClaimNames
    superusers: bool
    remember_login_s: float


class Authentication:
    """Turns an Authorization header into an HttpIdentity, or refuses; all refusals of credentials read alike."""

    def __init__(
        self,
        rules: AuthenticationRules,
        *,
        logins: Logins,
        roles: Roles,
        tokens: Tokens,
        failed: FailedLogins,
        metrics: HttpMetrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._rules, self._logins, self._roles, self._tokens = rules, logins, roles, tokens
        self._failed, self._metrics, self._log, self._clock, self._now = failed, metrics, log, clock, now
        # Accepted passwords by a hash under a key that only this process knows and that dies with it.
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Future[str]] = {}

    async def identify(self, authorization: Sequence[str], address: str, *, token: str | None = None) -> HttpIdentity:
        """Of all Authorization headers of a request, and of a token that a door takes from elsewhere (?token=)."""
        if len(authorization) + (token is not None) > 1:
            raise HttpRefusal(400, "the request has more than one set of credentials")
        if token is not None:
            return await self._bearer(token, address)
        if not authorization:
            raise HttpRefusal(401, MISSING)
        scheme, _, value = authorization[0].strip().partition(" ")
        match scheme.lower():
            case "basic":
                return await self._basic(value.strip(), address)
            case "bearer":
                return await self._bearer(value.strip(), address)
            case _:
                raise HttpRefusal(401, MISSING)

    async def recheck(self, caller: HttpIdentity) -> HttpIdentity | None:
        """The caller as it is now, for streams that outlast a request; None if it would not be let in any more."""
        now_s = self._now()
        if caller.expires_at is not None and caller.expires_at <= now_s:
            return None
        if caller.database_role is None:
            return caller
        try:
            facts = await self._roles.facts(caller.database_role)
        except LoginUnknown:
            return caller  # what it may read is asked for beside this, and fails closed
        if facts is None or refusal_of(facts, now_s=now_s, superusers=self._rules.superusers) is not None:
            return None
        return of_login(facts) if caller.method == "basic" else caller

    async def _basic(self, encoded: str, address: str) -> HttpIdentity:
        user, password = _credentials(encoded)
        digest = self._digest(user, password)
        try:
            login = self._recalled(digest) or await self._verified(digest, user, password, address)
            facts = await self._roles.facts(login)
        except LoginRefused as refusal:
            raise self._refused("basic", str(refusal), address) from None
        except LoginUnknown as error:
            raise self._unavailable("basic", str(error)) from None
        reason = refusal_of(facts, now_s=self._now(), superusers=self._rules.superusers)
        if facts is None or reason is not None:
            self._remembered.pop(digest, None)
            # Counted as any other failure: a right password of such a role must not look different from a wrong one.
            self._failed.failed(address, self._clock())
            raise self._refused("basic", reason or "", address)
        self._metrics.authenticated("basic", "accepted")
        return of_login(facts)

    async def _verified(self, digest: bytes, user: str, password: str, address: str) -> str:
        """Ask PostgreSQL, once for all requests that bring the same credentials at the same time."""
        waiting = self._under_way.get(digest)
        if waiting is not None:
            return await asyncio.shield(waiting)
        wait_s = self._failed.wait_s(address, self._clock())
        if wait_s > 0:
            self._metrics.authenticated("basic", "delayed")
            raise HttpRefusal(429, "too many log-ins failed: try again later", retry_after_s=wait_s)
        self._failed.began(address)
        asking = self._under_way[digest] = asyncio.ensure_future(self._ask(digest, user, password, address))
        asking.add_done_callback(lambda done: self._forget(digest, done))
        return await asyncio.shield(asking)

    async def _ask(self, digest: bytes, user: str, password: str, address: str) -> str:
        failed = False
        try:
            login = await self._logins.verify(user, password)
        except LoginRefused:
            failed = True
            raise
        finally:
            self._failed.ended(address, self._clock(), failed=failed)
        self._remembered[digest] = self._clock() + self._rules.remember_login_s, login
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return login

    def _forget(self, digest: bytes, done: asyncio.Future[str]) -> None:
        self._under_way.pop(digest, None)
        if not done.cancelled():
            done.exception()  # who asked was told; a caller that hung up leaves nobody to read it

    def _recalled(self, digest: bytes) -> str | None:
        until, login = self._remembered.get(digest, (0.0, ""))
        if until > self._clock():
            return login
        self._remembered.pop(digest, None)
        return None

    async def _bearer(self, token: str, address: str) -> HttpIdentity:
        try:
            caller = of_claims(await self._tokens.verify(token), self._rules.claims)
            if caller.database_role is None:
                reason = None
            else:
                facts = await self._roles.facts(caller.database_role)
                reason = refusal_of(facts, now_s=self._now(), superusers=self._rules.superusers)
        except (BadToken, BadClaims) as error:
            raise self._refused("bearer", str(error), address) from None
        except (LoginUnknown, KeysUnavailable) as error:
            raise self._unavailable("bearer", str(error)) from None
        if reason is not None:
            raise self._refused("bearer", reason, address)
        self._metrics.authenticated("bearer", "accepted")
        return caller

    def _digest(self, user: str, password: str) -> bytes:
        name = user.encode()
        return hmac.digest(self._key, len(name).to_bytes(4) + name + password.encode(), hashlib.sha256)

    def _refused(self, method: str, reason: str, address: str) -> HttpRefusal:
        self._metrics.authenticated(method, "refused")
        self._log.warning("http_credentials_refused", method=method, reason=reason, client=address)
        return HttpRefusal(401, REFUSED)

    def _unavailable(self, method: str, reason: str) -> HttpRefusal:
        self._metrics.authenticated(method, "unavailable")
        self._log.warning("http_credentials_not_checked", method=method, reason=reason)
        return HttpRefusal(503, "credentials cannot be checked now: try again", retry_after_s=1.0)


def _credentials(encoded: str) -> tuple[str, str]:
    """User and password of a Basic header (RFC 7617)."""
    if len(encoded) > MOST_BASIC_BYTES:
        raise HttpRefusal(401, REFUSED)
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise HttpRefusal(401, REFUSED) from None
    if not colon:
        raise HttpRefusal(401, REFUSED)
    return user, password
