"""The PG port: accepts clients and gives each a session with its own connection to PostgreSQL."""

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import Callable, Coroutine
from typing import Protocol, cast
from uuid import uuid4

from structlog.typing import FilteringBoundLogger

from proto.pgwire import backend
from proto.pgwire.conversation import Traffic
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.frontend import CancelRequest, Startup
from services.gateway.core.admission import Admission
from services.gateway.errors import PortRefused, UpstreamUnreachable
from services.gateway.inbound.certificate import Certificate
from services.gateway.inbound.pg_port.binary_door import BinaryDoorParts
from services.gateway.inbound.pg_port.listening import Hub
from services.gateway.inbound.pg_port.session import PgSession, SessionContext, TopicsMethods
from services.gateway.inbound.pg_port.startup import ClientStartup, StartupReader, TlsRequired
from services.gateway.settings import Gateway

# As long as PostgreSQL itself waits by default.
STARTUP_S = 60.0
CANCEL_S = 10.0
GOODBYE_S = 2.0
GOODBYE = "the gateway is shutting down: connect again"
DISCONNECTED = (OSError, ssl.SSLError)

OnConnectionMade = Callable[[asyncio.Transport, StartupReader], object]


class UpstreamConnection(Protocol):
    """An open connection to PostgreSQL."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def certificate(self) -> bytes | None: ...

    @property
    def left(self) -> asyncio.Future[None]: ...


class Upstream(Protocol):
    """Where PostgreSQL is."""

    @property
    def by_socket(self) -> bool: ...

    def connected(self) -> contextlib.AbstractAsyncContextManager[UpstreamConnection]: ...


class PgPort:
    """Accepts clients until it is cancelled; a client's faults end its own session alone."""

    def __init__(
        self,
        settings: Gateway,
        upstream: Upstream,
        certificate: Certificate | None,
        *,
        binary_door: BinaryDoorParts,
        notify: Hub,
        topics: TopicsMethods,
        traffic: Traffic,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._upstream, self._certificate = settings, upstream, certificate
        self._binary_door, self._notify, self._traffic, self._log = binary_door, notify, traffic, log
        self._topics = topics
        self._sessions: set[PgSession] = set()

    async def serve(self) -> None:
        """Until cancelled; then every client is told so."""
        own = self._settings
        context = SessionContext(
            self._binary_door,
            self._notify,
            self._topics,
            self._traffic,
            own.unread_bytes,
            own.proof_wait_s,
            self._log,
        )
        async with asyncio.TaskGroup() as group:

            def accept() -> asyncio.Protocol:
                return _AcceptedConnection(
                    lambda transport, reader: group.create_task(self._serve_client(transport, reader, context))
                )

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
                await self._shut_down()

    async def _shut_down(self) -> None:
        """Tell every client, and let TLS close each connection: a loop that ends earlier would cut them off."""
        left = list(self._sessions)
        for session in left:
            session.refuse("57P01", GOODBYE)
        if left:
            await asyncio.wait([session.gone for session in left], timeout=GOODBYE_S)
        for session in left:
            if not session.gone.done():
                session.abort()

    async def _serve_client(self, transport: asyncio.Transport, reader: StartupReader, context: SessionContext) -> None:
        self._traffic.connections += 1
        where = [transport]
        try:
            async with asyncio.timeout(STARTUP_S):
                startup = await reader.startup(transport, self._certificate, tls_required=self._settings.tls_required)
            if startup is not None:
                where = [startup.transport]
                await self._connect(startup, reader, context)
        except (MalformedMessage, TlsRequired, UpstreamUnreachable) as error:
            self._log.warning("connection_refused", reason=getattr(error, "detail", str(error)))
            where[0].write(backend.encode_fatal(error.sqlstate, str(error)))
        except (TimeoutError, *DISCONNECTED):
            pass  # it said nothing, or hung up: there is nobody to tell
        except Exception:
            # Whatever one client makes us stumble over ends its own connection, never the process.
            self._log.exception("connection_failed")
        finally:
            with contextlib.suppress(*DISCONNECTED):
                where[0].close()

    async def _connect(self, startup: ClientStartup, reader: StartupReader, context: SessionContext) -> None:
        async with self._upstream.connected() as upstream:
            if reader.client_left:
                return
            if upstream.left.done():
                raise UpstreamUnreachable("PostgreSQL hung up")
            if isinstance(startup.message, CancelRequest):
                upstream.transport.write(startup.packet)
                # PostgreSQL hangs up when it has acted; a client takes our hanging up for that.
                async with asyncio.timeout(CANCEL_S):
                    await upstream.left
                return
            admission = Admission(
                may_trust=self._settings.allow_trust or (_is_local(startup.transport) and not self._upstream.by_socket),
                by_tls=startup.by_tls,
                binds_to_us=startup.by_tls
                and self._certificate is not None
                and not self._certificate.is_that_of(upstream.certificate),
            )
            await self._run_session(startup, reader, upstream, admission, context)

    async def _run_session(
        self,
        startup: ClientStartup,
        reader: StartupReader,
        upstream: UpstreamConnection,
        admission: Admission,
        context: SessionContext,
    ) -> None:
        """Until either side leaves; what was begun for this client ends with it, and its faults are its own."""
        assert isinstance(startup.message, Startup)
        tasks: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as scope:

            def spawn(work: Coroutine[None, None, None]) -> None:
                task = scope.create_task(work)
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            session = PgSession(uuid4().hex, startup.message, admission, context, spawn)
            self._sessions.add(session)
            session.gone.add_done_callback(lambda _: self._sessions.discard(session))
            try:
                session.begin(startup.transport, upstream.transport, startup.packet, reader.take_rest())
                await asyncio.shield(session.ended)
            finally:
                session.end()
                for task in tasks:
                    task.cancel()


class _AcceptedConnection(StartupReader):
    """Calls back on connection_made."""

    def __init__(self, on_connection_made: OnConnectionMade) -> None:
        super().__init__()
        self._on_connection_made = on_connection_made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio's, but do the same.
        self._on_connection_made(cast(asyncio.Transport, transport), self)


def _is_local(transport: asyncio.Transport) -> bool:
    """Who comes from this machine could ask PostgreSQL directly as well."""
    peer = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return True
    return ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
