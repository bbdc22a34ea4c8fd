"""The PG port: clients come in, PostgreSQL is behind, and each is a session of its own."""

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import Callable
from typing import cast
from uuid import uuid4

from structlog.typing import FilteringBoundLogger

from proto.pgwire import backend
from proto.pgwire.conversation import Traffic
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.frontend import CancelRequest
from proto.pgwire.live import FromClient
from services.gateway.core.admission import Admission
from services.gateway.errors import PortRefused
from services.gateway.inbound.opening import Opened, Opening, TlsOnly
from services.gateway.inbound.server import Server, ServerUnreachable
from services.gateway.inbound.session import Live, Session, Surroundings
from services.gateway.inbound.tls import Certificate
from services.gateway.settings import Gateway

# As long as PostgreSQL itself waits by default.
OPENING_S = 60.0
CANCEL_S = 10.0
GOODBYE_S = 2.0
GOODBYE = "the gateway is shutting down: connect again"
ENDED = (OSError, ssl.SSLError)

Born = Callable[[asyncio.Transport, Opening], object]


class PgPort:
    """Accepts clients until it is cancelled; a client's faults end its own session alone."""

    def __init__(
        self,
        settings: Gateway,
        server: Server,
        certificate: Certificate | None,
        *,
        live: Live,
        traffic: Traffic,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._server, self._certificate = settings, server, certificate
        self._live, self._traffic, self._log = live, traffic, log
        self._sessions: set[Session] = set()

    async def serve(self) -> None:
        """Until cancelled; then every client is told so."""
        own = self._settings
        async with asyncio.TaskGroup() as group:
            around = Surroundings(
                self._live,
                lambda session, message: self._spawn(group, session, message),
                self._traffic,
                own.unread_bytes,
            )

            def accept() -> asyncio.Protocol:
                return _Accepted(lambda transport, opening: group.create_task(self._client(transport, opening, around)))

            try:
                listening = await asyncio.get_running_loop().create_server(
                    accept, own.host, own.port, reuse_port=own.share_port, backlog=1024
                )
            except OSError as error:
                raise PortRefused(own.host, own.port, error.strerror or str(error)) from error
            self._log.info("listening", host=own.host, port=own.port, tls=self._certificate is not None)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                listening.close()
                await self._leave()

    async def _leave(self) -> None:
        """Tell every client, and let TLS say goodbye on each connection: a loop that ends before breaks off."""
        left = list(self._sessions)
        for session in left:
            session.refuse("57P01", GOODBYE)
        if left:
            await asyncio.wait([session.gone for session in left], timeout=GOODBYE_S)
        for session in left:
            if not session.gone.done():
                session.abort()

    def _spawn(self, group: asyncio.TaskGroup, session: Session, message: FromClient) -> None:
        group.create_task(self._live.receive(message, session), name="live")

    async def _client(self, transport: asyncio.Transport, opening: Opening, around: Surroundings) -> None:
        self._traffic.connections += 1
        where = [transport]
        try:
            async with asyncio.timeout(OPENING_S):
                opened = await opening.opened(transport, self._certificate, tls_required=self._settings.tls_required)
            if opened is not None:
                where = [opened.transport]
                await self._opened(opened, opening, around)
        except (MalformedMessage, TlsOnly, ServerUnreachable) as error:
            self._log.warning("connection_refused", reason=str(error))
            where[0].write(backend.encode_fatal(error.sqlstate, str(error)))
        except (TimeoutError, *ENDED):
            pass  # it said nothing, or hung up: there is nobody to tell
        finally:
            with contextlib.suppress(*ENDED):
                where[0].close()

    async def _opened(self, opened: Opened, opening: Opening, around: Surroundings) -> None:
        async with self._server.reached() as reached:
            if opening.ended:
                return
            if reached.left.done():
                raise ServerUnreachable("PostgreSQL hung up")
            if isinstance(opened.message, CancelRequest):
                reached.transport.write(opened.packet)
                # PostgreSQL hangs up when it has acted; a client takes our hanging up for that.
                async with asyncio.timeout(CANCEL_S):
                    await reached.left
                return
            admission = Admission(
                may_trust=self._settings.allow_trust or _is_local(opened.transport),
                by_tls=opened.by_tls,
                binds_to_us=opened.by_tls
                and self._certificate is not None
                and not self._certificate.is_that_of(reached.certificate),
            )
            session = Session(uuid4().hex, opened.message, admission, around)
            self._sessions.add(session)
            session.gone.add_done_callback(lambda _: self._sessions.discard(session))
            try:
                session.begin(opened.transport, reached.transport, opened.packet, opening.handed_over())
                await session.ended
            finally:
                session.end()


class _Accepted(Opening):
    """An Opening that tells of its birth."""

    def __init__(self, born: Born) -> None:
        super().__init__()
        self._born = born

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's, but do the same.
        self._born(cast(asyncio.Transport, transport), self)


def _is_local(transport: asyncio.Transport) -> bool:
    """Who comes from this machine could ask PostgreSQL directly as well."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return True
    return ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
