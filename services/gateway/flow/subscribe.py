"""A subscribe request of any door: who asks is verified, PostgreSQL judges the query, the registry is told."""

import time
from typing import Protocol
from uuid import uuid4

from services.gateway.core.delivery.encoder import Encoder
from services.gateway.core.delivery.subscription import Owner
from services.gateway.core.principal import Principal, ProvenIdentity
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import Refusal, RefusalCode, SubscribeRefused
from services.gateway.flow.deliver import Delivery
from services.gateway.metrics import Metrics
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.commands import Commands
from services.gateway.outbound.role_check import RoleCheck
from services.gateway.outbound.validation import Checked

ROLE_CHANGED = Refusal(RefusalCode.ENDED, "Subscription ended: the session's role has changed")
SESSION_CHANGED = "Execution error: the session was reset or changed its role meanwhile: subscribe again"


class Session(Protocol):
    """One client's session at a door."""

    connection_id: str

    def send(self, message: bytes) -> None:
        """Queue one or more whole messages."""

    async def proven(self, names: tuple[str, ...] = ()) -> ProvenIdentity:
        """Who the client is, with the values of these settings; raises SubscribeRefused if it cannot be proven."""

    def reset_since(self, place: int) -> bool:
        """Whether the session was reset by something that the client sent after this place in its stream."""


class Subscribe:
    """Carries out the subscribe requests of all connections of this process."""

    def __init__(
        self,
        *,
        delivery: Delivery,
        commands: Commands,
        checks: Checks,
        role_check: RoleCheck,
        metrics: Metrics,
        login_limit: int,
    ) -> None:
        self._delivery, self._commands, self._checks, self._role_check = delivery, commands, checks, role_check
        self._metrics, self._login_limit = metrics, login_limit

    async def subscribe(self, request: SubscribeRequest, session: Session, encoder: Encoder, place: int) -> None:
        """`place` is where in the client's stream the request stood."""
        subscription_id, asked_us = uuid4(), time.time_ns() // 1000
        if not self._is_open(session):
            return  # it left before its message was read
        try:
            principal, checked = await self._checked(request, session)
            if not self._is_open(session):
                return  # it left while we asked
            if session.reset_since(place):
                raise SubscribeRefused(RefusalCode.SESSION_CHANGED, SESSION_CHANGED)
            self._refuse_over_limit(principal)
            command = self._commands.subscribing(subscription_id, request, principal, checked, asked_us=asked_us)
            self._delivery.add(
                subscription_id,
                session.connection_id,
                encoder,
                principal,
                tables=checked.tables,
                barrier=checked.barrier_lsn,
            )
            self._commands.send(command, subscription_id.bytes)
        except SubscribeRefused as refused:
            if self._is_open(session):
                self._metrics.refused.inc()
                session.send(encoder.refusal(subscription_id.bytes, refused.refusal))

    async def reprove(self, session: Session) -> bool:
        """A session may have another role by now, which ends what the former one had; false: ask again."""
        if not self._is_open(session):
            return True
        logins = self._delivery.logins_of(session.connection_id)
        if not any([await self._role_check.may_be_another(login) for login in logins]):
            return True
        try:
            principal = (await session.proven()).principal
        except SubscribeRefused:
            return False
        self._end_other_roles(session, principal)
        return True

    async def _checked(self, request: SubscribeRequest, session: Session) -> tuple[Principal, Checked]:
        proven = await session.proven()
        principal = await self._role_check.verified(proven, request)
        self._end_other_roles(session, principal)
        checked = await self._checks.check(request, principal)
        if checked.settings_unknown:
            again = (await session.proven(checked.settings_unknown)).principal
            if (again.login, again.role) != (principal.login, principal.role):
                raise SubscribeRefused(RefusalCode.SESSION_CHANGED, SESSION_CHANGED)
            checked = checked.with_settings(again)
        return principal, checked

    def _end_other_roles(self, session: Session, principal: Principal) -> None:
        """What the session's former role had is not the present one's."""
        if self._is_open(session):
            self._delivery.end_all(session.connection_id, ROLE_CHANGED, unless=Owner(principal.login, principal.role))

    def _refuse_over_limit(self, principal: Principal) -> None:
        held, most = self._delivery.count_of(principal.login), self._login_limit
        if held >= most:
            raise SubscribeRefused(
                RefusalCode.LIMIT_EXCEEDED,
                f"Limit exceeded: login '{principal.login}' has {held} subscriptions here, the limit is {most}",
            )

    def _is_open(self, session: Session) -> bool:
        return self._delivery.is_open(session.connection_id)
