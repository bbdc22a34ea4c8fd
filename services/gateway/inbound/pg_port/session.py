"""One client and its own connection to PostgreSQL: everything passes, except the live messages."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.pgwire import backend
from proto.pgwire.conversation import Answer, Conversation, FromClient, Traffic
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, encode_frame
from proto.pgwire.frontend import Startup
from proto.pgwire.topic_statements import Held
from services.gateway.core.admission import Admission
from services.gateway.core.principal import ProvenIdentity
from services.gateway.core.topics.rewrite import to_postgres
from services.gateway.core.topics.statements import Carried
from services.gateway.errors import ClientRefused
from services.gateway.inbound.pg_port.binary_door import BinaryDoor, BinaryDoorParts, options_of
from services.gateway.inbound.pg_port.identity_proof import FAILED as FAILED_TRANSACTION
from services.gateway.inbound.pg_port.identity_proof import IDLE, IN_FAILED, LOGIN, IdentityProof, refusal
from services.gateway.inbound.pg_port.listening import Hub, Listening

DISCARDED = "Subscription ended: the session was reset by DISCARD ALL"
OTHER_LOGIN = "Subscription ended: the session's user was changed by SET SESSION AUTHORIZATION"
# So long after the client sent something its role is looked at: a function may have changed it, which nothing tells.
LOOK_AGAIN_S = 5.0
FAILED = "the gateway failed on this session and ended it: connect again"


class TopicsMethods(Protocol):
    """What PostgreSQL is sent instead of a topic statement that the gateway carries out."""

    async def answered(self, statement: Carried, prove: Callable[[], Awaitable[ProvenIdentity]]) -> str: ...


class SessionContext(Struct, frozen=True):
    """What all sessions of the port share."""

    binary_door: BinaryDoorParts
    notify: Hub
    topics: TopicsMethods
    traffic: Traffic
    # What a client may leave unread before it is disconnected.
    unread_bytes: int
    # How long a subscribe waits for a moment at which it can be proven who the client is.
    proof_wait_s: float
    log: FilteringBoundLogger


class PgSession:
    """`client` and `server` are its two protocols; it is over when `ended` is done, and `gone` when both are closed."""

    def __init__(
        self,
        connection_id: str,
        startup: Startup,
        admission: Admission,
        context: SessionContext,
        spawn: Callable[[Coroutine[None, None, None]], object],
    ) -> None:
        self.connection_id = connection_id
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open_sides = 2
        self._admission, self._context, self._spawn = admission, context, spawn
        self._conversation = Conversation(context.traffic, to_postgres)
        self._identity = IdentityProof(connection_id, startup, self._conversation, wait_s=context.proof_wait_s)
        self._waiting: list[bytes] = []
        self._full = self._is_server_full = False
        self._door = BinaryDoor(self, context.binary_door, spawn, options=options_of(startup))
        self._listening = Listening(
            context.notify,
            most_bytes=context.unread_bytes,
            on_waiting=self._notify_at_rest,
            on_overrun=lambda: self._client.abort(),
        )
        self._is_looking = False
        # Whether the client may have another role than the one that was proven, and when that is looked at.
        self._is_role_in_doubt = self._is_reproving = False
        self._look_again: asyncio.TimerHandle | None = None
        # How often PostgreSQL had been ready when the session was last reset.
        self._reset_at = -1
        self._client: asyncio.Transport
        self._server: asyncio.Transport

    def begin(self, client: asyncio.Transport, server: asyncio.Transport, packet: bytes, rest: bytes) -> None:
        """Pass the startup message on, and from then on everything."""
        self._client, self._server = client, server
        self._identity.ask_by = server.write
        client.set_protocol(_Side(self.from_client, self._client_full, self._client_drained, self._lost))
        server.set_protocol(_Side(self.from_server, self._server_full, self._server_drained, self._lost))
        server.write(packet)
        if rest:
            self.from_client(rest)

    # What the door sees: where to send, and who the client is.

    @property
    def congested(self) -> bool:
        """The client does not read, or a message of PostgreSQL is half-way through."""
        return self._full or not self._conversation.at_boundary

    def send(self, data: bytes) -> None:
        """Between two messages of PostgreSQL, never inside one."""
        if self.ended.done():
            return
        # What it left lying before: one result may be larger than that, and who reads shall have it.
        if self._client.get_write_buffer_size() + sum(map(len, self._waiting)) > self._context.unread_bytes:
            self._client.abort()
            return
        if self._conversation.at_boundary:
            self._client.write(data)
        else:
            self._waiting.append(data)
        self._context.traffic.bytes_sent += len(data)
        self._context.traffic.messages_sent += 1

    async def proven(self, names: tuple[str, ...] = ()) -> ProvenIdentity:
        """Who the client is; raises SubscribeRefused if that cannot be proven soon."""
        return await self._identity.proven(names)

    def reset_since(self, place: int) -> bool:
        """Whether the session was reset by something that the client sent behind this place."""
        return self._reset_at >= place

    # What passes.

    def from_client(self, data: bytes) -> None:
        self._pass(lambda: self._conversation.from_client(data))

    def _pass(self, said: Callable[[], list[FromClient]]) -> None:
        """What the client said goes on to PostgreSQL, or to a door."""
        try:
            for piece in said():
                if isinstance(piece, bytes):
                    self._identity.overtaken()
                    self._server.write(piece)
                    if self._door.is_open and self._look_again is None:
                        self._look_again = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self._doubt_role)
                elif isinstance(piece, Held):
                    self._spawn(self._carry_out(piece.statement))
                else:
                    self._from_client_message(piece)
            self._door.flush_refusals()
            if self._conversation.is_holding:
                self._client.pause_reading()
        except MalformedMessage as error:
            self.refuse(error.sqlstate, str(error))
        except ClientRefused as refusal:
            self.refuse(refusal.sqlstate, str(refusal))
        except Exception:
            self._fail()

    async def _carry_out(self, statement: Carried) -> None:
        """The client waits meanwhile: what it sends is read by PostgreSQL behind the answer."""
        try:
            instead = await self._context.topics.answered(statement, self._identity_at_once)
        except asyncio.CancelledError:
            self.end()
            return
        except Exception:
            self._fail()
            return
        if not self.ended.done():
            self._pass(lambda: self._conversation.release(instead))
            self._read_on()

    def from_server(self, data: bytes) -> None:
        was_inside = not self._conversation.at_boundary
        try:
            for piece in self._conversation.from_server(data):
                if isinstance(piece, bytes):
                    self._client.write(piece)
                else:
                    self._from_server_message(piece)
            if self._identity.wanted:
                self._identity.try_asking()
            if self._is_role_in_doubt:
                self._reprove_at_rest()
            if self._listening.is_in_doubt:
                self._look_at_rest()
            if self._listening.has_waiting:
                self._notify_at_rest()
            if (was_inside or self._waiting) and self._conversation.at_boundary:
                self._flush()
        except ClientRefused as refusal:
            self.refuse(refusal.sqlstate, str(refusal))
        except MalformedMessage as error:
            self.refuse(error.sqlstate, f"PostgreSQL's answer cannot be read: {error}")
        except Exception:
            self._fail()

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
        self._identity.end()
        self._door.close()
        self._listening.end()
        if self._look_again is not None:
            self._look_again.cancel()
        # Both still send what they have been given: PostgreSQL's last words, the client's Terminate.
        self._client.close()
        self._server.close()

    def abort(self) -> None:
        """Close both without a last word."""
        self._client.abort()
        self._server.abort()

    def _fail(self) -> None:
        """A fault of ours: it ends this session and nobody else's."""
        self._context.log.exception("session_failed", connection_id=self.connection_id)
        self.refuse("XX000", FAILED)

    def _lost(self) -> None:
        self.end()
        self._open_sides -= 1
        if self._open_sides == 0 and not self.gone.done():
            self.gone.set_result(None)

    def _from_client_message(self, frame: Frame) -> None:
        if not self._conversation.logged_in:
            self._admission.answer(frame)
            self._server.write(encode_frame(frame.type, frame.body))
            return
        place = self._conversation.place_of_taken()
        if not self._door.is_open:
            self._conversation.note_resets()
        self._door.take(frame, place)

    def _from_server_message(self, piece: Frame | Answer) -> None:
        if isinstance(piece, Answer):
            self._identity.answered(piece)
        elif piece.type == backend.PARAMETER_STATUS:
            place, name = self._conversation.place_of_noted(), self._identity.reported(piece)
            if name == LOGIN and self._door.is_open:
                self._reset(OTHER_LOGIN, place)
        elif piece.type == backend.BACKEND_KEY:
            self._conversation.place_of_noted()
            self._identity.backend_pid = backend.backend_pid(piece)
        elif piece.type == backend.COMMAND_COMPLETE:
            self._completed(piece.body, self._conversation.place_of_noted())
        elif piece.type == backend.NOTIFICATION:
            self._conversation.place_of_noted()
            if not self._listening.is_ours(backend.notified_channel(piece)):
                self._client.write(encode_frame(piece.type, piece.body))
        else:
            if piece.type == backend.AUTHENTICATION:
                self._conversation.place_of_noted()
                if self._admission.asked(piece):
                    self._conversation.log_in()
                piece = self._admission.shown(piece)
            self._client.write(encode_frame(piece.type, piece.body))

    def _completed(self, tag: bytes, place: int) -> None:
        """A statement whose effect on the session counts here."""
        if tag in backend.LISTENING_CHANGED:
            self._listening.doubt()
            self._conversation.note_resets()
        if tag == backend.DISCARDED_ALL:
            self._reset(DISCARDED, place)
        elif tag in backend.SETTING_CHANGED:
            self._is_role_in_doubt |= self._door.is_open
            if self._listening.is_listening:
                self._listening.doubt()

    def _look_at_rest(self) -> None:
        """Ask what the session listens to, where no transaction can take it back."""
        if self._conversation.at_rest and self._conversation.status == IDLE and not self._is_looking:
            self._is_looking = True
            self._spawn(self._look())

    async def _look(self) -> None:
        try:
            await self._listening.look(self._identity_now)
        finally:
            self._is_looking = False

    async def _identity_now(self) -> ProvenIdentity:
        return await self._identity.proven(())

    async def _identity_at_once(self) -> ProvenIdentity:
        """As soon as nothing is under way; in a transaction that has failed that would be never."""
        if self._conversation.at_rest and self._conversation.status == FAILED_TRANSACTION:
            raise refusal(IN_FAILED)
        return await self._identity.proven(())

    def _notify_at_rest(self) -> None:
        """As PostgreSQL does: never while a transaction or a statement is under way."""
        is_idle = self._conversation.at_rest and self._conversation.status == IDLE
        if is_idle and self._conversation.at_boundary and self._listening.has_waiting:
            self.send(self._listening.take())

    def _doubt_role(self) -> None:
        self._look_again, self._is_role_in_doubt = None, True
        self._reprove_at_rest()

    def _reprove_at_rest(self) -> None:
        """Ask who the client is now, where nothing of his is under way and no transaction can take it back."""
        if self._conversation.at_rest and self._conversation.status == IDLE and not self._is_reproving:
            self._is_role_in_doubt, self._is_reproving = False, True
            self._spawn(self._reprove())

    async def _reprove(self) -> None:
        try:
            self._is_role_in_doubt |= not await self._door.reprove()
        finally:
            self._is_reproving = False

    def _reset(self, words: str, place: int) -> None:
        self._reset_at = place
        self._door.end_all(words)

    def _flush(self) -> None:
        """A boundary is reached: what waited for it goes out, and what was held back may follow."""
        if self._waiting:
            self._client.write(b"".join(self._waiting))
            self._waiting = []
        if not self._full:
            self._door.drained()

    def _server_full(self) -> None:
        self._is_server_full = True
        self._client.pause_reading()

    def _server_drained(self) -> None:
        self._is_server_full = False
        self._read_on()

    def _read_on(self) -> None:
        if not (self._is_server_full or self._conversation.is_holding or self.ended.done()):
            self._client.resume_reading()

    def _client_full(self) -> None:
        self._full = True
        self._server.pause_reading()

    def _client_drained(self) -> None:
        self._full = False
        if self.ended.done():
            return
        self._server.resume_reading()
        if self._conversation.at_boundary:
            self._door.drained()


class _Side(asyncio.Protocol):
    """One of the two connections: passes its bytes on, and its backpressure to the other one."""

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
