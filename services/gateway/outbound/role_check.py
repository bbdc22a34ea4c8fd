"""Whether a proven session may subscribe as the role that it has."""

from services.gateway.core.identity_question import shadowing
from services.gateway.core.principal import Principal, ProvenIdentity
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import RefusalCode, SubscribeRefused
from services.gateway.outbound.roles import Roles

SUPERUSER = (
    "Execution error: superusers may not subscribe here: SET ROLE to another role first, "
    "or set TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE=true"
)


class RoleCheck:
    """Verifies again, on a connection that the client cannot touch, that its login may be its role."""

    def __init__(self, roles: Roles, *, superusers_subscribe: bool) -> None:
        self._roles, self._superusers_subscribe = roles, superusers_subscribe

    async def verified(self, proven: ProvenIdentity, request: SubscribeRequest) -> Principal:
        """Raises SubscribeRefused."""
        principal = proven.principal
        standing = await self._roles.standing(principal.login)
        if principal.role != principal.login:
            standing_as = await self._roles.may_be(principal.login, principal.role) if standing.may_change else None
            if standing_as is None:
                raise SubscribeRefused(
                    RefusalCode.PERMISSION_DENIED,
                    f"Execution error: permission denied to set role '{principal.role}'",
                )
            standing = standing_as
        if standing.is_superuser and not self._superusers_subscribe:
            raise SubscribeRefused(RefusalCode.PERMISSION_DENIED, SUPERUSER)
        await self._refuse_shadowed(proven, request)
        return principal

    async def may_be_another(self, login: str) -> bool:
        """Whether a session of this login can have another role than it has."""
        try:
            return (await self._roles.standing(login)).may_change
        except SubscribeRefused:
            return True  # nobody knows

    async def _refuse_shadowed(self, proven: ProvenIdentity, request: SubscribeRequest) -> None:
        """A name that means a temporary table to the session would mean another one to us."""
        text = f"{request.query} {request.filter or ''}"
        if proven.temporaries is not None:
            name = shadowing(proven.temporaries, text)
            if name is not None:
                raise _refused(f"the query may mean the temporary table '{name}', which cannot be watched: rename it")
            return
        others = await self._roles.temporaries(proven.backend)
        if others is None:
            raise _refused("the transaction may have made a temporary table: subscribe outside of it")
        name = shadowing(others, text)
        if name is not None:
            raise _refused(
                f"whether '{name}' means a temporary table here can be asked only outside of a transaction: "
                "subscribe outside of one"
            )


def _refused(words: str) -> SubscribeRefused:
    return SubscribeRefused(RefusalCode.INVALID_QUERY, f"Execution error: {words}")
