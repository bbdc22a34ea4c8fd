"""One client and its own connection to PostgreSQL: everything passes, but for the live messages."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from proto.pgwire import backend
from proto.pgwire.conversation import Answer, Conversation, Traffic
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, encode_frame
from proto.pgwire.frontend import Startup
from proto.pgwire.live import NO_SUBSCRIPTION, FromClient, Refused, decode_from_client, encode
from services.gateway.core.admission import Admission
from services.gateway.core.identity import UNREPORTED, Identity, role_of
from services.gateway.errors import ClientRefused

IDLE, IN_TRANSACTION = b"I", b"T"


class Live(Protocol):
    """The rest of the gateway, as a session needs it."""

    def open(self, connection_id: str, outlet: "Session", *, wants_lsn: bool) -> None: ...
    def close(self, connection_id: str) -> None: ...
    def drained(self, connection_id: str) -> None: ...
    async def receive(self, message: FromClient, client: "Session") -> None: ...


class Surroundings(Struct, frozen=True):
    """What all sessions of the port share."""

    live: Live
    spawn: Callable[["Session", FromClient], None]
    traffic: Traffic
    # What a client may leave unread before it is disconnected.
    unread_bytes: int


class Session:
    """`client` and `server` are its two protocols; it is over when `ended` is done, and `gone` when both are closed."""

    def __init__(self, connection_id: str, startup: Startup, admission: Admission, around: Surroundings) -> None:
        self.connection_id = connection_id
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open_sides = 2
        self._startup, self._admission, self._around = startup, admission, around
        self._conversation = Conversation(around.traffic)
        self._settings = startup.settings
        self._reported: set[str] = set()
        # What the client sent since the settings were read may have changed them.
        self._read: frozenset[str] = frozenset()
        self._waiting: list[bytes] = []
        self._reading: asyncio.Future[tuple[bytes | None, ...] | None] | None = None
        self._full = self._opened = False
        self._client: asyncio.Transport
        self._server: asyncio.Transport

    def begin(self, client: asyncio.Transport, server: asyncio.Transport, packet: bytes, rest: bytes) -> None:
        """Pass the startup message on, and from then on everything."""
        self._client, self._server = client, server
        client.set_protocol(_Side(self.from_client, self._client_full, self._client_drained, self._lost))
        server.set_protocol(_Side(self.from_server, client.pause_reading, client.resume_reading, self._lost))
        server.write(packet)
        if rest:
            self.from_client(rest)

    # What Live sees: where to send, and who asks.

    @property
    def congested(self) -> bool:
        """The client does not read, or a message of PostgreSQL is half-way through."""
        return self._full or not self._conversation.at_boundary

    def send(self, data: bytes) -> None:
        """Between two messages of PostgreSQL, never inside one."""
        if self.ended.done():
            return
        # What it left lying before: one result may be larger than that, and who reads shall have it.
        if self._client.get_write_buffer_size() + sum(map(len, self._waiting)) > self._around.unread_bytes:
            self._client.abort()
            return
        if self._conversation.at_boundary:
            self._client.write(data)
        else:
            self._waiting.append(data)
        self._around.traffic.bytes_sent += len(data)
        self._around.traffic.messages_sent += 1

    @property
    def identity(self) -> Identity:
        role = role_of(self._startup.user, self._settings)
        certain = self._read | self._reported
        return Identity(self.connection_id, role, self._startup.database, dict(self._settings), certain)

    async def settled(self, names: tuple[str, ...] = ()) -> Identity:
        """Who the client is, after reading what PostgreSQL does not tell unasked, where that disturbs nothing.

        In the middle of a query, a batch or a failed transaction nothing can be read: what was known before counts.
        `names` are settings of the user's own; one that was never set has no SHOW, so they are read by a query, which
        would take a snapshot in a transaction: outside of one only.
        """
        await self._read_settings({name: f'SHOW "{name}"' for name in UNREPORTED}, within=(IDLE, IN_TRANSACTION))
        calls = {name: f"SELECT pg_catalog.current_setting({_literal(name)}, true)" for name in names}
        await self._read_settings(calls, within=(IDLE,))
        return self.identity

    async def _read_settings(self, statements: dict[str, str], *, within: tuple[bytes, ...]) -> None:
        while self._reading is not None:
            await asyncio.shield(self._reading)
        wanted = {name: text for name, text in statements.items() if name not in self._read}
        if self.ended.done() or not wanted or not self._conversation.at_rest or self._conversation.status not in within:
            return
        self._reading = asyncio.get_running_loop().create_future()
        self._server.write(self._conversation.ask(tuple(wanted.values())))
        values = await asyncio.shield(self._reading)
        if values is not None and self._conversation.at_rest:
            found = {name: value.decode() for name, value in zip(wanted, values, strict=True) if value is not None}
            self._settings.update(found)
            self._read |= frozenset(wanted)

    # What passes.

    def from_client(self, data: bytes) -> None:
        try:
            for piece in self._conversation.from_client(data):
                if isinstance(piece, bytes):
                    self._read = frozenset()
                    self._server.write(piece)
                else:
                    self._take(piece)
        except MalformedMessage as error:
            self.refuse(error.sqlstate, str(error))
        except ClientRefused as refusal:
            self.refuse(refusal.sqlstate, str(refusal))

    def from_server(self, data: bytes) -> None:
        was_inside = not self._conversation.at_boundary
        try:
            for piece in self._conversation.from_server(data):
                if isinstance(piece, bytes):
                    self._client.write(piece)
                else:
                    self._hear(piece)
        except ClientRefused as refusal:
            self.refuse(refusal.sqlstate, str(refusal))
            return
        except MalformedMessage as error:
            self.refuse(error.sqlstate, f"PostgreSQL's answer cannot be read: {error}")
            return
        if (was_inside or self._waiting) and self._conversation.at_boundary:
            self._flush()

    def refuse(self, sqlstate: str, words: str) -> None:
        """End the session with a sentence."""
        if not self.ended.done():
            if self._conversation.at_boundary:
                self._client.write(backend.encode_fatal(sqlstate, words))
            self.end()

    def end(self) -> None:
        """Either side has left, or must."""
        if self.ended.done():
            return
        self.ended.set_result(None)
        self._answer(None)
        if self._opened:
            self._around.live.close(self.connection_id)
        # Both still send what they have been given: PostgreSQL's last words, the client's Terminate.
        self._client.close()
        self._server.close()

    def abort(self) -> None:
        """Close both without a last word."""
        self._client.abort()
        self._server.abort()

    def _lost(self) -> None:
        self.end()
        self._open_sides -= 1
        if self._open_sides == 0 and not self.gone.done():
            self.gone.set_result(None)

    def _take(self, frame: Frame) -> None:
        if not self._conversation.logged_in:
            self._admission.answer(frame)
            self._server.write(encode_frame(frame.type, frame.body))
            return
        if not self._opened:
            self._opened = True
            wants_lsn = self._settings.get("tidewire.lsn", "").lower() in ("on", "true", "yes", "1")
            self._around.live.open(self.connection_id, self, wants_lsn=wants_lsn)
        try:
            message = decode_from_client(frame)
        except MalformedMessage as error:
            # The frame is whole, so the stream is in step: only this message is refused.
            self.send(encode(Refused(NO_SUBSCRIPTION, f"Parse error: {error}")))
            return
        self._around.spawn(self, message)

    def _hear(self, piece: Frame | Answer) -> None:
        if isinstance(piece, Answer):
            self._answer(piece.values)
        elif piece.type == backend.PARAMETER_STATUS:
            name, value = backend.parameter_status(piece)
            self._settings[name.lower()] = value
            self._reported.add(name.lower())
        else:
            if piece.type == backend.AUTHENTICATION:
                if self._admission.asked(piece):
                    self._conversation.log_in()
                piece = self._admission.shown(piece)
            self._client.write(encode_frame(piece.type, piece.body))

    def _answer(self, values: tuple[bytes | None, ...] | None) -> None:
        """Our own question is answered, or never will be."""
        reading, self._reading = self._reading, None
        if reading is not None and not reading.done():
            reading.set_result(values)

    def _flush(self) -> None:
        """A boundary is reached: what waited for it goes out, and what was held back may follow."""
        if self._waiting:
            self._client.write(b"".join(self._waiting))
            self._waiting = []
        if self._opened and not self._full:
            self._around.live.drained(self.connection_id)

    def _client_full(self) -> None:
        self._full = True
        self._server.pause_reading()

    def _client_drained(self) -> None:
        self._full = False
        if self.ended.done():
            return
        self._server.resume_reading()
        if self._opened and self._conversation.at_boundary:
            self._around.live.drained(self.connection_id)


class _Side(asyncio.Protocol):
    """One of the two connections: bytes in, and how the other side must heed this one's fullness."""

    def __init__(
        self,
        received: Callable[[bytes], None],
        full: Callable[[], None],
        drained: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._received, self._full, self._drained, self._lost = received, full, drained, lost

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def pause_writing(self) -> None:
        self._full()

    def resume_writing(self) -> None:
        self._drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
