"""The PG port: clients come in, PostgreSQL is behind; everything passes but the live messages."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
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


class Hooks(Struct, frozen=True):
    """What the rest of the gateway wants to know of a connection."""

    opened: Callable[[str, Callable[[bytes], None]], None]
    closed: Callable[[str], None]
    received: Callable[[FromClient, Identity], Awaitable[None]]


class Session:
    """One client and its own connection to PostgreSQL."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        hooks: Hooks,
        unread_bytes: int,
    ) -> None:
        self.id = uuid4().hex
        self._reader, self._writer, self._hooks = reader, writer, hooks
        self._unread_bytes = unread_bytes
        self._from_server = Splitter(seen=SEEN)
        self._startup = Startup({})
        self._settings: dict[str, str] = {}
        self._authenticated = False
        # Live messages that wait until the server's current message has passed.
        self._waiting: list[bytes] = []

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

    def send_live(self, data: bytes) -> None:
        """Between two messages of the server, never inside one."""
        if self._writer.transport.get_write_buffer_size() > self._unread_bytes:
            self._writer.transport.abort()
        elif self._from_server.at_boundary:
            self._writer.write(data)
        else:
            self._waiting.append(data)

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
        self._hooks.opened(self.id, self.send_live)
        try:
            async with asyncio.TaskGroup() as group:
                down = group.create_task(self._down(upstream_reader), name="down")
                up = group.create_task(self._up(upstream_writer, group), name="up")
                await asyncio.wait((down, up), return_when=asyncio.FIRST_COMPLETED)
                if not down.done():
                    # A Terminate makes the server close; what it still says may be of use.
                    upstream_writer.close()
                down.cancel()
                up.cancel()
        finally:
            self._hooks.closed(self.id)

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
        await self._hooks.received(message, self._identity())

    def _learn(self, frame: Frame) -> None:
        if frame.type == backend.PARAMETER_STATUS:
            name, value = backend.parameter_status(frame)
            self._settings[name.lower()] = value
        elif backend.is_authenticated(frame):
            self._authenticated = True

    def _identity(self) -> Identity:
        return Identity(self.id, self._startup.user, self._startup.database, dict(self._settings))


class PgPort:
    """Accepts clients; each is a session of its own, and its faults end it alone."""

    def __init__(self, server: Address, *, hooks: Hooks, unread_bytes: int, log: FilteringBoundLogger) -> None:
        self._server, self._hooks, self._unread_bytes, self._log = server, hooks, unread_bytes, log

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(reader, writer, hooks=self._hooks, unread_bytes=self._unread_bytes)
        try:
            await session.run(self._server)
        except* MalformedMessage as errors:
            words = str(errors.exceptions[0])
            self._log.warning("connection_refused", session=session.id, reason=words)
            writer.write(backend.encode_fatal(MalformedMessage.sqlstate, words))
        except* ENDED:
            pass  # a client or PostgreSQL hung up: the other side learns it by our hanging up
        finally:
            with contextlib.suppress(*ENDED):
                writer.close()
