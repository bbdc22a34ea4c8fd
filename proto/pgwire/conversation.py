"""A session as the one in the middle sees it: two streams of messages, and the law that binds them.

Both streams are passed on as they arrive, without waiting for whole messages; only what the gateway has a use for is
taken out or noted. The law says at which moment nothing of the client's is under way: then, and only then, may the
gateway ask PostgreSQL a question of its own on the client's connection.
"""

from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from struct import Struct as Packed
from typing import TypeAlias

from msgspec import Struct

from proto.pgwire import backend
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import HEADER_BYTES, Frame, impossible_length
from proto.pgwire.live import FRONTEND_TYPES

# A subscription's SQL and parameters fit many times. What PostgreSQL takes in other messages is its own concern.
LIVE_LIMIT_BYTES = 1024 * 1024
# A client's answer while it logs in; PostgreSQL's own limit for it.
LOGIN_LIMIT_BYTES = 65_535

_LENGTH = Packed("!i")


class Act(IntEnum):
    """What a message of the client does to the session: sections 54.2 and 54.7 of PostgreSQL's manual."""

    PASSES = 0
    OPENS = 1  # a message of the extended protocol: a batch is open until its Sync
    RUNS = 6  # likewise, and a query runs
    ASKS = 2  # PostgreSQL owes a ReadyForQuery
    SYNCS = 3  # likewise, and the batch is closed
    ENDS_COPY = 4
    TAKEN = 5  # ours: it is not passed on


class Sign(IntEnum):
    """What a message of PostgreSQL tells of the session."""

    PASSES = 0
    AUTHENTICATION = 1  # taken: the gateway decides whether it goes on
    PARAMETER = 2
    READY = 3
    COPY_BEGINS = 4
    FAILURE = 5


def _table(meanings: Mapping[Act, bytes] | Mapping[Sign, bytes]) -> bytes:
    table = bytearray(256)
    for meaning, types in meanings.items():
        for type_byte in types:
            table[type_byte] = meaning
    return bytes(table)


_COMMON = {Act.OPENS: b"PBDCH", Act.RUNS: b"E", Act.ASKS: b"QF", Act.SYNCS: b"S", Act.ENDS_COPY: b"cf"}
_LOGGING_IN = _table({Act.TAKEN: b"p" + bytes(FRONTEND_TYPES)})
_LOGGED_IN = _table(_COMMON | {Act.TAKEN: bytes(FRONTEND_TYPES)})
_SIGNS = _table(
    {
        Sign.AUTHENTICATION: b"R",
        Sign.PARAMETER: b"S",
        Sign.READY: b"Z",
        Sign.COPY_BEGINS: b"GW",
        Sign.FAILURE: b"E",
    }
)
# Plain numbers: the walk over the frames is the gateway's hot path, and looking up a member of an enum costs as much as
# all else that is done for a frame.
_OPENS, _RUNS, _ASKS, _SYNCS, _TAKEN = (int(act) for act in (Act.OPENS, Act.RUNS, Act.ASKS, Act.SYNCS, Act.TAKEN))
_ENDS_COPY = int(Act.ENDS_COPY)
_AUTHENTICATION, _READY, _COPY_BEGINS = int(Sign.AUTHENTICATION), int(Sign.READY), int(Sign.COPY_BEGINS)
# Signs whose message must be whole to be understood.
_WHOLE = frozenset((_AUTHENTICATION, int(Sign.PARAMETER), _READY))
# What PostgreSQL may say at any time, and what ends the session: never an answer to our own question.
_UNASKED = frozenset(b"ANS")


class Traffic:
    """What passed, over all conversations that share it; plain numbers, since they move with every read."""

    def __init__(self) -> None:
        self.connections = self.queries = 0
        self.messages_received = self.messages_sent = 0
        self.bytes_received = self.bytes_sent = 0


class Answer(Struct, frozen=True):
    """What PostgreSQL answered to the gateway's own question: a value for each statement; None if it refused one."""

    values: tuple[bytes | None, ...] | None


FromClient: TypeAlias = bytes | Frame
FromServer: TypeAlias = bytes | Frame | Answer


class Conversation:
    """Feed it both streams; it gives what is to be passed on (bytes) and what was found (frames), in order."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        # The transaction status that PostgreSQL told last: I idle, T in a transaction, E in a failed one.
        self.status = b""
        # Something was seen after which it is not certain which ReadyForQuery answers what.
        self.unsure = False
        self._acts = _LOGGING_IN
        # What PostgreSQL owes a ReadyForQuery for, in order, with ends of copies that it has not begun yet as far as
        # we know; one is owed at the start.
        self._owed: deque[int] = deque([_ASKS])
        self._batch_open = self._copying = False
        # Syncs were left out of the count because PostgreSQL ignores them while it copies.
        self._ignored = False
        self._client_rest, self._client_passing = b"", 0
        self._server_rest, self._server_passing = b"", 0
        self._question: list[bytes | None] | None = None
        self._refused = False

    @property
    def logged_in(self) -> bool:
        return self._acts is _LOGGED_IN

    @property
    def at_rest(self) -> bool:
        """Nothing of the client's is under way, and PostgreSQL has told its status."""
        idle = not (self._owed or self._batch_open or self._client_passing or self._client_rest)
        return idle and not self.unsure and self._question is None and bool(self.status)

    @property
    def at_boundary(self) -> bool:
        """All that was passed on to the client so far ends with a whole message."""
        return self._server_passing == 0

    def log_in(self) -> None:
        """PostgreSQL is content with who the client is."""
        self._acts = _LOGGED_IN

    def ask(self, statements: tuple[str, ...]) -> bytes:
        """A question of our own, to be sent to PostgreSQL now; its Answer comes out of `from_server`.

        It goes by named statements, so that the client's unnamed one stays as it is.
        """
        assert self.at_rest
        self._question, self._refused = [], False
        return backend.encode_question(statements)

    def from_client(self, data: bytes) -> list[FromClient]:
        self._traffic.bytes_received += len(data)
        if self._client_rest:
            data, self._client_rest = self._client_rest + data, b""
        at, end = self._client_passing, len(data)
        if at >= end:
            self._client_passing = at - end
            return [data] if data else []
        pieces: list[FromClient] = []
        begin, last, acts, count = 0, end - HEADER_BYTES, self._acts, 0
        while at <= last:
            (length,) = _LENGTH.unpack_from(data, at + 1)
            if length < 4:
                raise impossible_length(data[at], length)
            following = at + 1 + length
            act = acts[data[at]]
            if act == _TAKEN:
                _refuse_over(LIVE_LIMIT_BYTES if self.logged_in else LOGIN_LIMIT_BYTES, data[at], length)
                if following > end:
                    break
                if at > begin:
                    pieces.append(data[begin:at])
                pieces.append(Frame(data[at], data[at + HEADER_BYTES : following]))
                begin = following
            elif act == _OPENS:
                self._batch_open = True
            elif act:
                self._act(act)
            at = following
            count += 1
        self._traffic.messages_received += count
        self._client_passing = max(0, at - end)
        at = min(at, end)
        if at > begin:
            pieces.append(data[begin:at] if begin or at < end else data)
        if at < end:
            self._client_rest = data[at:]
        return pieces

    def from_server(self, data: bytes) -> list[FromServer]:
        self._traffic.bytes_sent += len(data)
        if self._server_rest:
            data, self._server_rest = self._server_rest + data, b""
        at, end = self._server_passing, len(data)
        if at >= end:
            self._server_passing = at - end
            return [data] if data else []
        pieces: list[FromServer] = []
        begin, last, count = 0, end - HEADER_BYTES, 0
        signs, asking = _SIGNS, self._question is not None
        while at <= last:
            kind = data[at]
            (length,) = _LENGTH.unpack_from(data, at + 1)
            if length < 4:
                raise impossible_length(kind, length)
            following = at + 1 + length
            sign = signs[kind]
            if not (sign or asking):
                at = following
                count += 1
                continue
            ours = self._question is not None and kind not in _UNASKED
            if ours or sign in _WHOLE:
                if following > end:
                    break
                body = data[at + HEADER_BYTES : following]
                if ours or sign == _AUTHENTICATION:
                    if at > begin:
                        pieces.append(data[begin:at])
                    begin = following
                    found = self._answered(kind, body) if ours else Frame(kind, body)
                    if found is not None:
                        pieces.append(found)
                elif sign == _READY:
                    self._ready(body)
                else:
                    pieces.append(data[begin:following])
                    pieces.append(Frame(kind, body))
                    begin = following
            elif sign:
                self._told(sign)
            at = following
            count += 1
        self._traffic.messages_sent += count
        self._server_passing = max(0, at - end)
        at = min(at, end)
        if at > begin:
            pieces.append(data[begin:at] if begin or at < end else data)
        if at < end:
            self._server_rest = data[at:]
        return pieces

    def _act(self, act: int) -> None:
        if act == _RUNS:
            self._batch_open = True
            self._traffic.queries += 1
        elif act == _SYNCS:
            self._batch_open = False
            self._owed.append(act)
        elif act == _ASKS:
            # After an error in its batch PostgreSQL would skip this one: whether it answers is not known here.
            self.unsure = self.unsure or self._batch_open
            self._owed.append(act)
            self._traffic.queries += 1
        elif self._copying:
            self._copying = False
            self._ignore_syncs(len(self._owed))
        elif self._owed:
            self._owed.append(act)

    def _ready(self, status: bytes) -> None:
        self.status = status
        self._ignored = False
        if self._owed:
            self._owed.popleft()
        while self._owed and self._owed[0] == _ENDS_COPY:
            self._owed.popleft()  # of a copy that never began

    def _told(self, sign: int) -> None:
        if sign == _COPY_BEGINS:
            self._copying = _ENDS_COPY not in self._owed
            if not self._copying:
                at = self._owed.index(_ENDS_COPY)
                del self._owed[at]
                self._ignore_syncs(at)
        elif self._copying or self._ignored:
            # Whether a Sync was ignored before the copy failed, or ended the skipping after it, cannot be seen.
            self.unsure = self.unsure or self._ignored or _SYNCS in self._owed
            self._copying = False

    def _ignore_syncs(self, count: int) -> None:
        """PostgreSQL ignores every Sync that comes while it copies: those among the first so many are not owed."""
        kept = [act for at, act in enumerate(self._owed) if at >= count or act != _SYNCS]
        self._ignored = self._ignored or len(kept) < len(self._owed)
        self._owed = deque(kept)

    def _answered(self, kind: int, body: bytes) -> Answer | Frame | None:
        assert self._question is not None
        if kind == backend.DATA_ROW:
            self._question.append(backend.first_value(body))
        elif kind == backend.ERROR_RESPONSE:
            if backend.is_fatal(body):
                self._question = None
                return Frame(kind, body)
            self._refused = True
        elif kind == backend.READY_FOR_QUERY:
            values, self._question, self.status = tuple(self._question), None, body
            return Answer(None if self._refused else values)
        return None


def _refuse_over(limit_bytes: int, kind: int, length: int) -> None:
    if length > limit_bytes:
        raise MalformedMessage(f"a message of type 0x{kind:02X} has {length} bytes, over the limit of {limit_bytes}")
