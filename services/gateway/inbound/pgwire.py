"""The PG port: clients come in, PostgreSQL is behind; everything passes but the live messages."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import uuid4

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.pgwire import backend
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame
from proto.pgwire.frontend import CancelRequest, EncryptionRequest, Startup, decode_opening, opening_length
from proto.pgwire.live import FRONTEND_TYPES, FromClient, decode_from_client
from proto.pgwire.split import Passed, Splitter
from services.gateway.core.identity import Identity

CHUNK_BYTES = 64 * 1024
# What a client may leave unread before its live results wait.
CONGESTED_BYTES = 256 * 1024
LOOK_AGAIN_S = 0.05
SEEN = frozenset({backend.AUTHENTICATION, backend.PARAMETER_STATUS})
ENDED = (OSError, asyncio.IncompleteReadError)


class Address(Struct, frozen=True):
    """Where PostgreSQL answers; a host that begins with a slash is the folder of its socket."""

    host: str
    port: int

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.port}")
        return await asyncio.open_connection(self.host, self.port)


class Opened(Protocol):
    def __call__(self, connection_id: str, outlet: "Session", *, wants_lsn: bool) -> None: ...


class Hooks(Struct, frozen=True):
    """What the rest of the gateway wants to know of a connection."""

    opened: Opened
    closed: Callable[[str], None]
    drained: Callable[[str], None]
    received: Callable[[FromClient, "Session"], Awaitable[None]]


class Session:
    """One client and its own connection to PostgreSQL."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        hooks: Hooks,
    ) -> None:
        self.connection_id = uuid4().hex
        self._reader, self._writer, self._hooks = reader, writer, hooks
        self._from_server = Splitter(seen=SEEN)
        self._startup = Startup({})
        self._settings: dict[str, str] = {}
        self._authenticated = False
        # Live messages that wait until the server's current message has passed.
        self._waiting: list[bytes] = []
        self._full = asyncio.Event()

    async def run(self, server: Address) -> None:
        """From the first byte to the last."""
        opening = await self._opening()
        if opening is None:
            return
        packet, kind = opening
        try:
            upstream_reader, upstream_writer = await server.open()
        except OSError as error:
            self._writer.write(backend.encode_fatal("08006", f"PostgreSQL does not answer ({error})"))
            return
        try:
            upstream_writer.write(packet)
            if isinstance(kind, CancelRequest):
                await upstream_writer.drain()
                return
            await self._relay(upstream_reader, upstream_writer)
        finally:
            upstream_writer.close()

    def send(self, data: bytes) -> None:
        """Between two messages of the server, never inside one."""
        if self._from_server.at_boundary:
            self._writer.write(data)
        else:
            self._waiting.append(data)
        if self.congested:
            self._full.set()

    @property
    def congested(self) -> bool:
        waiting = sum(map(len, self._waiting)) if self._waiting else 0
        return waiting + self._writer.transport.get_write_buffer_size() > CONGESTED_BYTES

    @property
    def identity(self) -> Identity:
        return Identity(self.connection_id, self._startup.user, self._startup.database, dict(self._settings))

    async def settled(self) -> Identity:
        return self.identity

    async def _drain(self) -> None:
        while True:
            await self._full.wait()
            self._full.clear()
            await self._writer.drain()
            if self.congested:
                self._full.set()
                await asyncio.sleep(LOOK_AGAIN_S)
            else:
                self._hooks.drained(self.connection_id)

    async def _opening(self) -> tuple[bytes, Startup | CancelRequest] | None:
        while True:
            head = await self._reader.readexactly(4)
            packet = head + await self._reader.readexactly(opening_length(head) - 4)
            message = decode_opening(packet)
            if not isinstance(message, EncryptionRequest):
                if isinstance(message, Startup):
                    self._startup = message
                    self._settings.update({name.lower(): value for name, value in message.parameters.items()})
                return packet, message
            self._writer.write(b"N")

    async def _relay(self, upstream_reader: asyncio.StreamReader, upstream_writer: asyncio.StreamWriter) -> None:
        """Both directions until one of them ends."""
        self._writer.transport.set_write_buffer_limits(high=CONGESTED_BYTES)
        self._hooks.opened(self.connection_id, self, wants_lsn="tidewire.lsn" in self._startup.parameters)
        try:
            async with asyncio.TaskGroup() as group:
                down = group.create_task(self._down(upstream_reader), name="down")
                up = group.create_task(self._up(upstream_writer, group), name="up")
                drain = group.create_task(self._drain(), name="drain")
                await asyncio.wait((down, up), return_when=asyncio.FIRST_COMPLETED)
                if not down.done():
                    # A Terminate makes the server close; what it still says may be of use.
                    upstream_writer.close()
                drain.cancel()
                down.cancel()
                up.cancel()
        finally:
            self._hooks.closed(self.connection_id)

    async def _down(self, upstream: asyncio.StreamReader) -> None:
        while data := await upstream.read(CHUNK_BYTES):
            for piece in self._from_server.feed(data):
                if isinstance(piece, Passed):
                    self._writer.write(piece.data)
                else:
                    self._learn(piece)
            if self._waiting and self._from_server.at_boundary:
                self._writer.write(b"".join(self._waiting))
                self._waiting = []
            await self._writer.drain()

    async def _up(self, upstream: asyncio.StreamWriter, group: asyncio.TaskGroup) -> None:
        splitter = Splitter(taken=FRONTEND_TYPES)
        while data := await self._reader.read(CHUNK_BYTES):
            for piece in splitter.feed(data):
                if isinstance(piece, Passed):
                    upstream.write(piece.data)
                else:
                    self._receive(piece, group)
            await upstream.drain()

    def _receive(self, frame: Frame, group: asyncio.TaskGroup) -> None:
        if not self._authenticated:
            raise MalformedMessage("a live message came before authentication")
        message = decode_from_client(frame)
        group.create_task(self._wait_for(message), name="live")

    async def _wait_for(self, message: FromClient) -> None:
        await self._hooks.received(message, self)

    def _learn(self, frame: Frame) -> None:
        if frame.type == backend.PARAMETER_STATUS:
            name, value = backend.parameter_status(frame)
            self._settings[name.lower()] = value
        elif backend.is_authenticated(frame):
            self._authenticated = True


class PgPort:
    """Accepts clients; each is a session of its own, and its faults end it alone."""

    def __init__(self, server: Address, *, hooks: Hooks, log: FilteringBoundLogger) -> None:
        self._server, self._hooks, self._log = server, hooks, log

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(reader, writer, hooks=self._hooks)
        try:
            await session.run(self._server)
        except* MalformedMessage as errors:
            words = str(errors.exceptions[0])
            self._log.warning("connection_refused", session=session.connection_id, reason=words)
            writer.write(backend.encode_fatal(MalformedMessage.sqlstate, words))
        except* ENDED:
            pass  # a client or PostgreSQL hung up: the other side learns it by our hanging up
        finally:
            with contextlib.suppress(*ENDED):
                writer.close()
