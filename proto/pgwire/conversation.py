"""A session as the one in the middle sees it: two streams of messages, and the law that binds them.

Both streams are passed on as they arrive, without waiting for whole messages; only what the gateway has a use for is
taken out or noted. The law (owed.py) says at which moment nothing of the client's is under way: then, and only then,
may the gateway ask PostgreSQL a question of its own on the client's connection.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct as Packed
from typing import TypeAlias

from msgspec import Struct

from proto.pgwire import backend, topic_statements
from proto.pgwire.acts import LOGGED_IN, LOGGING_IN, SIGNS, SIGNS_WITH_TOPICS, Act, Sign
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import HEADER_BYTES, Frame, impossible_length
from proto.pgwire.owed import Owed
from proto.pgwire.rest import Rest
from proto.pgwire.topic_statements import Held

# A subscription's SQL and parameters fit many times. What PostgreSQL takes in other messages is its own concern.
LIVE_LIMIT_BYTES = 1024 * 1024
# A client's answer while it logs in; PostgreSQL's own limit for it.
LOGIN_LIMIT_BYTES = 65_535
# A message of PostgreSQL that is read whole and is longer is passed on unread, or dropped if it answers our question.
NOTED_LIMIT_BYTES = 256 * 1024
# No question of ours has more rows; what is beyond them is not kept.
ANSWER_ROWS = 64

_LENGTH = Packed("!i")


# Plain numbers: the walk over the frames is the gateway's hot path, and looking up a member of an enum costs as much as
# all else that is done for a frame.
_OPENS, _RUNS, _ASKS, _SYNCS, _TAKEN = (int(act) for act in (Act.OPENS, Act.RUNS, Act.ASKS, Act.SYNCS, Act.TAKEN))
_ENDS_COPY, _STATES = int(Act.ENDS_COPY), int(Act.STATES)
_AUTHENTICATION, _READY, _COPY_BEGINS = int(Sign.AUTHENTICATION), int(Sign.READY), int(Sign.COPY_BEGINS)
_COMPLETION, _FAILURE = int(Sign.COMPLETION), int(Sign.FAILURE)
# Signs whose message must be whole to be understood.
_WHOLE = frozenset((_AUTHENTICATION, int(Sign.PARAMETER), _READY, _COMPLETION, int(Sign.KEY), int(Sign.NOTIFICATION)))
_TAKEN_KINDS = frozenset((backend.AUTHENTICATION, backend.NOTIFICATION))
_NOTED_TAGS = backend.SETTING_CHANGED | backend.LISTENING_CHANGED
# What PostgreSQL may say at any time, and what ends the session: never an answer to our own question.
_UNASKED = frozenset(b"ANS")
# What an answer to a statement of ours is edited in.
_EDITED = frozenset(b"NEC")
_PARSE = backend.PARSE


class Traffic:
    """What passed, over all conversations that share it; plain numbers, since they move with every read."""

    def __init__(self) -> None:
        self.connections = self.queries = 0
        self.messages_received = self.messages_sent = 0
        self.bytes_received = self.bytes_sent = 0


class Answer(Struct, frozen=True):
    """What PostgreSQL answered to the gateway's own question: its rows; None if it refused it."""

    rows: tuple[tuple[bytes | None, ...], ...] | None


FromClient: TypeAlias = bytes | Frame | Held
FromServer: TypeAlias = bytes | Frame | Answer


class Conversation:
    """Feed it both streams; it gives what is to be passed on (bytes) and what was found (frames), in order."""

    def __init__(self, traffic: Traffic, rewrite: Callable[[bytes, bool], str | Held] | None = None) -> None:
        self._traffic = traffic
        # What PostgreSQL is sent instead of a topic statement; of one that can be held, perhaps only later.
        self._rewrite = rewrite
        # A topic statement that is held, and everything that came behind it: as if it had not been said yet.
        self._held = b""
        self._topic_answers: topic_statements.TopicAnswers | None = None
        # The transaction status that PostgreSQL told last: I idle, T in a transaction, E in a failed one.
        self.status = b""
        self._acts, self._signs = LOGGING_IN, SIGNS
        self._tags = backend.LISTENING_CHANGED
        self._owed = Owed()
        self._client_rest, self._client_passing = Rest(), 0
        self._server_rest, self._server_passing = Rest(), 0
        # What is passing is the end of an answer to us: nobody gets it.
        self._dropping = False
        self._question: list[tuple[bytes | None, ...]] | None = None
        self._refused = False
        self._leftover = ""
        self._places: deque[int] = deque()
        self._noted: deque[int] = deque()

    @property
    def logged_in(self) -> bool:
        return self._acts is LOGGED_IN

    @property
    def unsure(self) -> bool:
        """Something was seen after which it is not certain which ReadyForQuery answers what, for ever."""
        return self._owed.unsure

    def place_of_taken(self) -> int:
        """How often PostgreSQL will have been ready when it has answered all in front of the next live message."""
        return self._places.popleft()

    def place_of_noted(self) -> int:
        """How often PostgreSQL had been ready when it said what was noted next."""
        return self._noted.popleft()

    @property
    def at_rest(self) -> bool:
        """Nothing of the client's is under way, and PostgreSQL has told its status."""
        idle = self._owed.nothing and not (self._client_passing or self._client_rest.pieces)
        return idle and self._question is None and bool(self.status)

    @property
    def is_holding(self) -> bool:
        """A topic statement waits for `release`."""
        return bool(self._held)

    @property
    def at_boundary(self) -> bool:
        """All that was passed on to the client so far ends with a whole message."""
        return self._server_passing == 0

    def log_in(self) -> None:
        """PostgreSQL is content with who the client is."""
        self._acts = LOGGED_IN

    def doubt(self) -> None:
        """An answer was not what it had to be: nothing is certain any more."""
        self._owed.leaves()

    def note_resets(self) -> None:
        """From now on SET and RESET are told too, by a frame of their CommandComplete."""
        self._tags = _NOTED_TAGS

    def ask(self, statements: tuple[str, ...], name: str) -> bytes:
        """A question of our own, to be sent to PostgreSQL now; its Answer comes out of `from_server`.

        It goes by statements of this name, so that the client's unnamed one stays as it is.
        """
        assert self.at_rest
        self._question, self._refused = [], False
        asked = backend.encode_question(statements, name, self._leftover)
        self._leftover = name
        return asked

    def from_client(self, data: bytes) -> list[FromClient]:
        """Up to a Held nothing is left out; what comes behind it comes out of `release`."""
        self._traffic.bytes_received += len(data)
        if self._held:
            self._held += data
            return []
        return self._from_client(data)

    def release(self, statement: str) -> list[FromClient]:
        """Go on with what was held: PostgreSQL is sent this instead of the statement."""
        data, self._held = self._held, b""
        following = 1 + _LENGTH.unpack_from(data, 1)[0]
        text = topic_statements.place_of(data, 0, following)
        self._state(data[0])
        self._traffic.messages_received += 1
        sent = topic_statements.replaced(data, 0, following, text, statement)
        return [sent, *self._from_client(data[following:])]

    def _from_client(self, data: bytes) -> list[FromClient]:
        if self._client_rest.pieces:
            joined = self._client_rest.joined(data)
            if joined is None:
                return []
            data = joined
        at, end = self._client_passing, len(data)
        if at >= end:
            self._client_passing = at - end
            return [data] if data else []
        pieces: list[FromClient] = []
        begin, last, acts, count, need = 0, end - HEADER_BYTES, self._acts, 0, HEADER_BYTES
        owed = self._owed
        while at <= last:
            (length,) = _LENGTH.unpack_from(data, at + 1)
            if length < 4:
                raise impossible_length(data[at], length)
            following = at + 1 + length
            act = acts[data[at]]
            if act == _TAKEN:
                _refuse_over(LIVE_LIMIT_BYTES if self.logged_in else LOGIN_LIMIT_BYTES, data[at], length)
                if following > end:
                    need = following - at
                    break
                if at > begin:
                    pieces.append(data[begin:at])
                pieces.append(Frame(data[at], data[at + HEADER_BYTES : following]))
                if self.logged_in:
                    self._places.append(owed.place)
                begin = following
            elif act == _OPENS:
                if not owed.plain:
                    owed.extended()
            elif act == _STATES:
                text = topic_statements.place_of(data, at, following) if self._rewrite is not None else 0
                if text < 0:
                    need = -text
                    break
                if text:
                    if at > begin:
                        pieces.append(data[begin:at])
                    pieces.append(self._rewritten(data, at, following, text))
                    begin = following
                    if isinstance(pieces[-1], Held):
                        self._held, at, begin = data[at:], end, end
                        break
                self._state(data[at])
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
            self._client_rest.keep(data[at:], need)
        return pieces

    def from_server(self, data: bytes) -> list[FromServer]:
        self._traffic.bytes_sent += len(data)
        if self._server_rest.pieces:
            joined = self._server_rest.joined(data)
            if joined is None:
                return []
            data = joined
        if self._dropping:
            dropped = min(self._server_passing, len(data))
            data, self._server_passing = data[dropped:], self._server_passing - dropped
            self._dropping = self._server_passing > 0
        at, end = self._server_passing, len(data)
        if at >= end:
            self._server_passing = at - end
            return [data] if data else []
        pieces: list[FromServer] = []
        begin, last, count, need = 0, end - HEADER_BYTES, 0, HEADER_BYTES
        signs, asking = self._signs, self._question is not None
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
            if self._topic_answers is not None and kind in _EDITED and not ours and length <= NOTED_LIMIT_BYTES:
                if following > end:
                    need = following - at
                    break
                begin = self._edit(self._topic_answers, pieces, data, (begin, at, following))
            elif (ours or sign in _WHOLE) and length <= NOTED_LIMIT_BYTES:
                if following > end:
                    need = following - at
                    break
                if sign == _READY and not ours:
                    self.status = data[at + HEADER_BYTES : following]
                    self._owed.ready()
                elif self._note(pieces, data, (begin, at, following), ours):
                    begin = following
            elif ours:
                if at > begin:
                    pieces.append(data[begin:at])
                begin, self._refused, self._dropping = following, True, following > end
            elif sign == _AUTHENTICATION or kind == backend.NOTIFICATION:
                raise impossible_length(kind, length)
            elif sign in _WHOLE:
                pieces.append(Frame(kind, b""))  # too long to be read: its name is not known
                self._noted.append(self._owed.answered)
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
            self._server_rest.keep(data[at:], need)
        return pieces

    def _note(self, pieces: list[FromServer], data: bytes, place: tuple[int, int, int], ours: bool) -> bool:
        """Take a whole message in; True if everything up to its end is in the pieces, or is nobody's."""
        begin, at, following = place
        kind, body = data[at], data[at + HEADER_BYTES : following]
        if kind == backend.COMMAND_COMPLETE and not ours and body not in self._tags:
            return False
        taken = ours or kind in _TAKEN_KINDS
        until = at if taken else following
        if until > begin:
            pieces.append(data[begin:until])
        if not ours:
            self._noted.append(self._owed.answered)
        found = self._answered(kind, body) if ours else Frame(kind, body)
        if found is not None:
            pieces.append(found)
        return True

    def _rewritten(self, data: bytes, at: int, following: int, text: int) -> bytes | Held:
        """A topic statement as PostgreSQL is sent it; from now on its answers are looked at.

        One can be held where all before it will be answered without what is behind it, and where it is sent again to
        be carried out again: in a Query, or in an unnamed Parse that begins a batch.
        """
        assert self._rewrite is not None
        is_named = data[at] == _PARSE and text > at + HEADER_BYTES + 1
        made = self._rewrite(data[text : data.find(0, text, following)], not (is_named or self._owed.in_batch))
        if self._topic_answers is None:
            self._topic_answers, self._signs = topic_statements.TopicAnswers(), SIGNS_WITH_TOPICS
        return made if isinstance(made, Held) else topic_statements.replaced(data, at, following, text, made)

    def _edit(
        self,
        answers: topic_statements.TopicAnswers,
        pieces: list[FromServer],
        data: bytes,
        place: tuple[int, int, int],
    ) -> int:
        """Take a notice, an error or a completion in; up to where everything is in the pieces."""
        begin, at, following = place
        kind = data[at]
        if kind == backend.ERROR_RESPONSE:
            self._told(_FAILURE)
        edited = answers.edited(kind, data[at + HEADER_BYTES : following])
        if edited is None:
            is_tag = kind == backend.COMMAND_COMPLETE
            return following if is_tag and self._note(pieces, data, place, False) else begin
        if at > begin:
            pieces.append(data[begin:at])
        if edited:
            pieces.append(edited)
        return following

    def _state(self, kind: int) -> None:
        if kind == _PARSE:
            if not self._owed.plain:
                self._owed.extended()
        else:
            self._act(_ASKS)

    def _act(self, act: int) -> None:
        owed = self._owed
        if act == _RUNS:
            if not owed.plain:
                owed.extended()
            self._traffic.queries += 1
        elif act == _SYNCS:
            owed.syncs()
        elif act == _ASKS:
            owed.asks()
            self._traffic.queries += 1
        elif act == _ENDS_COPY:
            owed.ends_copy()
        else:
            owed.leaves()

    def _told(self, sign: int) -> None:
        if sign == _COPY_BEGINS:
            self._owed.copy_begins()
        elif sign == _FAILURE:
            self._owed.fails()
        else:
            self._owed.leaves()

    def _answered(self, kind: int, body: bytes) -> Answer | Frame | None:
        assert self._question is not None
        if kind == backend.DATA_ROW:
            if len(self._question) <= ANSWER_ROWS:
                self._question.append(backend.row_values(body))
        elif kind == backend.ERROR_RESPONSE:
            if backend.is_fatal(body):
                self._question = None
                return Frame(kind, body)
            self._refused = True
        elif kind == backend.READY_FOR_QUERY:
            rows, self._question, self.status = tuple(self._question), None, body
            if not self._refused:
                self._leftover = ""
            return Answer(None if self._refused else rows)
        return None


def _refuse_over(limit_bytes: int, kind: int, length: int) -> None:
    if length > limit_bytes:
        raise MalformedMessage(f"a message of type 0x{kind:02X} has {length} bytes, over the limit of {limit_bytes}")
