"""Hands each message of `notifications` to the sockets and the listening sessions that may have it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.notifications_pb2 import Notification, NotificationRecord
from services.chassis.health import PartProgress
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.notify.continuity import Gap
from services.gateway.core.notify.sockets import FORBIDDEN, RESTARTS, BoundSocket, Sockets
from services.gateway.errors import RegistrationsUnknown, SubscribeRefused
from services.gateway.flow.notify.results import Results
from services.gateway.outbound.registrations import Registrations
from services.gateway.outbound.roles import Roles

# How often sockets are compared with what is registered, and callers with what they may do.
RECHECK_S = 5.0
# Messages that are kept for sessions whose LISTEN is being looked at.
RECENT = 1000

Recheck = Callable[[HttpIdentity], Awaitable[HttpIdentity | None]]


class Log(Protocol):
    def batches(self) -> AsyncIterator[list[NotificationRecord | Gap]]: ...


class Listener(Protocol):
    """A session of the PG port that listens to the channel."""

    # As which login and role that was proven.
    @property
    def principal(self) -> tuple[str, str]: ...

    def notify(self, channel: str, payload: bytes) -> None: ...


class HttpSocket:
    """A socket with its caller, and a bell for whoever writes to it."""

    def __init__(self, bound: BoundSocket, caller: HttpIdentity, recheck: Recheck) -> None:
        self.bound, self.caller, self.recheck = bound, caller, recheck
        self.bell = asyncio.Event()


class NotifyHub:
    def __init__(
        self,
        sockets: Sockets,
        results: Results,
        registrations: Registrations,
        roles: Roles,
        *,
        reader_role: str,
        log: FilteringBoundLogger,
    ) -> None:
        self._sockets, self._results, self._registrations, self._roles = sockets, results, registrations, roles
        self._reader_role, self._log = reader_role, log
        self._open: dict[BoundSocket, HttpSocket] = {}
        self._listeners: set[Listener] = set()
        self.channel = "pgr"
        # The latest messages, each with its place.
        self._recent: deque[tuple[int, Notification]] = deque(maxlen=RECENT)
        self._place = 0

    def enter(self, query_id: str, gen: int, caller: HttpIdentity, recheck: Recheck) -> HttpSocket:
        socket = HttpSocket(self._sockets.bind(query_id, gen), caller, recheck)
        self._open[socket.bound] = socket
        socket.bell.set()
        return socket

    def leave(self, socket: HttpSocket) -> None:
        self._sockets.leave(socket.bound)
        self._open.pop(socket.bound, None)

    @property
    def open_sockets(self) -> int:
        return len(self._open)

    @property
    def place(self) -> int:
        """How many messages came so far."""
        return self._place

    async def listen(self, listener: Listener, since: int) -> None:
        """From now on; and what came behind the place `since`, while it was found out that this session listens."""
        allowed: dict[str, bool] = {}
        while missing := {one.role for at, one in self._recent if at > since} - allowed.keys():
            for role in missing:
                allowed[role] = await self._may_have(listener.principal, role)
        for at, message in self._recent:
            if at > since and allowed[message.role]:
                listener.notify(message.channel, message.payload)
        self._listeners.add(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    async def follow(self, log: Log, progress: PartProgress) -> None:
        """Until cancelled; then sockets are told to come back elsewhere."""
        try:
            async for batch in log.batches():
                for record in batch:
                    if isinstance(record, Gap):
                        self._missed(record)
                    elif record.WhichOneof("body") == "result":
                        self._results.arrived(record.result)
                    else:
                        await self._told(record.notification)
                progress.ready()
        finally:
            self._come_again()

    async def keep(self) -> None:
        """Until cancelled: the registrations and callers of open sockets, and the channel's name."""
        while True:
            try:
                self.channel = await self._registrations.channel()
                for query_id in self._sockets.queries:
                    meta = await self._registrations.meta(query_id)
                    self._ring(self._sockets.committed(query_id, None if meta is None else meta.gen))
            except RegistrationsUnknown as error:
                self._log.info("registrations_unknown", reason=str(error))
            for socket in list(self._open.values()):
                if await socket.recheck(socket.caller) is None:
                    socket.bound.close(FORBIDDEN)
                    socket.bell.set()
            await asyncio.sleep(RECHECK_S)

    def _missed(self, gap: Gap) -> None:
        """Sockets come again and fetch; listening sessions see by the next seq that some are missing."""
        self._log.warning("notifications_missed", partition=gap.partition)
        self._come_again()

    def _come_again(self) -> None:
        self._sockets.close_all(RESTARTS)
        for socket in self._open.values():
            socket.bell.set()

    async def _told(self, message: Notification) -> None:
        self._ring(self._sockets.told(message))
        if not message.payload:
            return
        allowed = {principal: await self._may_have(principal, message.role) for principal in self._principals()}
        self._place += 1
        self._recent.append((self._place, message))
        for listener in list(self._listeners):
            if allowed.get(listener.principal, False):
                listener.notify(message.channel, message.payload)

    def _principals(self) -> set[tuple[str, str]]:
        return {listener.principal for listener in self._listeners}

    async def _may_have(self, principal: tuple[str, str], role: str) -> bool:
        """Whether it is the role that the query runs as, may be it, or reads everything; no answer means no."""
        own = principal[1]
        try:
            for wanted in (role, self._reader_role):
                if own == wanted or await self._roles.may_be(own, wanted) is not None:
                    return True
        except SubscribeRefused:
            return False
        return False

    def _ring(self, sockets: list[BoundSocket]) -> None:
        for bound in sockets:
            if (socket := self._open.get(bound)) is not None:
                socket.bell.set()
