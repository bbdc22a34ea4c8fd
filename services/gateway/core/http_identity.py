"""Who an HTTP caller is, once its credentials have been verified."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from services.gateway.core.principal import Principal

HTTP_DOOR = "http"
ServiceRole = Literal["system", "dba", "service", "user"]
# The strongest first: a login that is a member of several gets the first.
SERVICE_ROLES: tuple[ServiceRole, ...] = get_args(ServiceRole)


class RoleFacts(Struct, frozen=True, kw_only=True):
    """What PostgreSQL says about a role."""

    name: str
    can_login: bool
    is_superuser: bool
    # Seconds since 1970; None: for ever.
    valid_until: float | None = None
    # The service roles that it is a member of.
    service_roles: frozenset[str] = frozenset()


class HttpIdentity(Struct, frozen=True, kw_only=True):
    """One verified caller: for Basic the login that PostgreSQL accepted, for a token its subject."""

    name: str
    # The role whose rights bind; None for a token that names none, which may then use no rights of a role.
    database_role: str | None
    service_role: ServiceRole
    method: Literal["basic", "bearer"]
    claims: dict[str, Any] = {}
    # Seconds since 1970 at which streams of this caller must end; None: with the connection.
    expires_at: float | None = None

    def principal(self, connection_id: str, database: str, *, now_s: float, monotonic_s: float) -> Principal | None:
        """The same caller as the delivery core knows callers; None for one without a database role.

        The role itself is the login: it was verified to be one that may log in, and nobody set another.
        """
        if self.database_role is None:
            return None
        return Principal(
            connection_id=connection_id,
            role=self.database_role,
            database=database,
            settings={},
            login=self.database_role,
            door=HTTP_DOOR,
            expires_s=None if self.expires_at is None else monotonic_s + self.expires_at - now_s,
        )


def strongest(roles: frozenset[str]) -> ServiceRole:
    """The service role of a login that is a member of these."""
    return next((role for role in SERVICE_ROLES if role in roles), "user")


def refusal_of(facts: RoleFacts | None, *, now_s: float, superusers: bool) -> str | None:
    """Why this role may not be used over HTTP, for the log; None if it may."""
    if facts is None:
        return "no such role"
    if not facts.can_login:
        return "the role may not log in"
    if facts.valid_until is not None and facts.valid_until <= now_s:
        return "the role's password is no longer valid"
    if facts.is_superuser and not superusers:
        return "superusers are not let in over HTTP"
    return None


def of_login(facts: RoleFacts) -> HttpIdentity:
    """The caller who proved a password; its service role comes from its memberships."""
    return HttpIdentity(
        name=facts.name,
        database_role=facts.name,
        service_role="system" if facts.is_superuser else strongest(facts.service_roles),
        method="basic",
        expires_at=facts.valid_until,
    )


class BadClaims(Exception):
    """A well-signed token whose claims cannot be used."""


class ClaimNames(Struct, frozen=True, kw_only=True):
    """Which claims of a token carry the two roles, and the database role of a token that names none."""

    service_role: str = "role"
    database_role: str = "database_role"
    default_database_role: str | None = None


def of_claims(claims: Mapping[str, Any], names: ClaimNames) -> HttpIdentity:
    """The caller whom a verified token describes; its database role is still to be verified by PostgreSQL."""
    subject, expires = claims.get("sub"), claims.get("exp")
    if not isinstance(subject, str) or not subject:
        raise BadClaims("the token has no subject (`sub`)")
    database_role = claims.get(names.database_role, names.default_database_role)
    if database_role is not None and (not isinstance(database_role, str) or not database_role):
        raise BadClaims(f"the claim {names.database_role!r} is not the name of a role")
    service_role = claims.get(names.service_role)
    return HttpIdentity(
        name=subject,
        database_role=database_role,
        # A token of another system may use the claim for words of its own: they give no rights here.
        service_role=next((role for role in SERVICE_ROLES if role == service_role), "user"),
        method="bearer",
        claims=dict(claims),
        expires_at=float(expires) if isinstance(expires, int | float) else None,
    )
