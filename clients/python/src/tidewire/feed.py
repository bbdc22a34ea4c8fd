"""One subscription from its first result on: messages in, changes out, whatever connections they come by."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tidewire.changes import Change, Deleted, Initial, Inserted, Renewed, Replaced, Row, Updated
from tidewire.errors import SubscriptionFailed, SubscriptionRefused, TidewireError
from tidewire.matching import Unplaceable
from tidewire.merge import Result, difference, whole
from tidewire.messages import NOBODY, Data, PartialData, Subscribe, Update
from tidewire.messages import Row as RawRow
from tidewire.retry import Retry, Verdict, asked_delay_s, verdict_of

# Messages that wait for a reader are merged into one when those behind the first are larger than this together. One
# read of the socket brings less, so that a reader who keeps up gets every message.
HELD_BYTES = 256 * 1024
SENT_WHOLE = "the server sent the whole result"

Decoder: TypeAlias = Callable[[str], Any]
Delta: TypeAlias = Data | PartialData


@dataclass(slots=True)
class Held:
    """A message that nobody has taken yet; its LSN becomes known when its batch ends."""

    message: Delta
    size_bytes: int = 0
    because: str = SENT_WHOLE
    lsn: str | None = None


@dataclass(slots=True, eq=False)
class Feed:
    """`rows` is the result after the changes that `next` has given out, and never ahead of them."""

    request: Subscribe
    key: Sequence[int] | None = None
    decoders: Mapping[int, Decoder] = field(default_factory=dict)
    retry: Retry = field(default_factory=Retry)
    paused: bool = False
    closed: bool = False
    error: TidewireError | None = None
    # The rows cannot be known any more from what comes: the subscription must be made anew.
    wants_renewal: bool = False
    lsn: str | None = None
    tables: int | None = None
    # Whether the gateway has said which columns are the key.
    key_told: bool = False
    _result: Result = field(init=False)
    _held: deque[Held] = field(default_factory=deque)
    # Messages of a batch whose end has not come.
    _open: list[Held] = field(default_factory=list)
    _first: Initial | None = None
    _begun: bool = False
    _shown: tuple[Row, ...] | None = None
    _because: str = SENT_WHOLE
    _attempt: int = 0
    _behind_bytes: int = 0

    def __post_init__(self) -> None:
        self._result = Result(self.key)

    @property
    def rows(self) -> tuple[Row, ...]:
        if self._shown is None:
            self._shown = tuple(map(self._row, self._result))
        return self._shown

    @property
    def at_commit(self) -> bool:
        """Whether the batch of the last change has been given out whole; known only where LSNs are told."""
        return self.lsn is not None and not (self._held and self._held[0].lsn == self.lsn)

    @property
    def begun(self) -> bool:
        """Whether there has been a first result."""
        return self._begun

    def acknowledge(self, tables: int, key: Sequence[int] | None) -> None:
        """The gateway has taken the subscription; `key` is None if it does not say the key's columns."""
        self.tables, self.key_told = tables, key is not None
        if key is not None and self.key is None:
            self._result.use_key(key)

    def use_key(self, key: Sequence[int] | None) -> None:
        """The key was found in another way."""
        self._result.use_key(key)

    def take(self, message: Delta, size_bytes: int, *, in_batch: bool) -> None:
        """A message came; with `in_batch` it is given out only when its batch has ended."""
        held = Held(message, size_bytes)
        if isinstance(message, Data) and message.update is Update.FULL:
            held.because, self._because = self._because, SENT_WHOLE
            self._attempt, self.wants_renewal = 0, False
        if self.wants_renewal or self.error is not None:
            return
        (self._open if in_batch else self._held).append(held)
        self._begin()
        self._behind_bytes += size_bytes
        if self._behind_bytes > HELD_BYTES and len(self._held) > 1:
            self._weigh()

    def end_batch(self, lsn: str) -> None:
        """What came since the last end stands at this LSN."""
        self._held.extend(self._open)
        self._open.clear()
        for held in self._held:
            held.lsn = held.lsn or lsn
        self._begin()
        if not self._held:
            self.lsn = lsn
        if self._first is not None and self._first.lsn is None:
            self._first = Initial(self._first.rows, lsn)

    def lose(self, because: str) -> None:
        """The connection or the subscription is gone; the next message is a whole result."""
        self._open.clear()
        self._because = because

    def refuse(self, words: str) -> float | None:
        """The server said no: how long to wait before asking again, or None, and then `error` is set."""
        self.lose(f"the subscription was renewed after an error: {words}")
        asked_s = asked_delay_s(words)
        if asked_s is not None:
            return asked_s + self.retry.delay_s(0) * 0.1
        if verdict_of(words) is Verdict.PERMANENT or self._attempt >= self.retry.attempts:
            kind = SubscriptionFailed if self._begun else SubscriptionRefused
            self.error = kind(words, self.request.query)
            return None
        self._attempt += 1
        return self.retry.delay_s(self._attempt - 1)

    def next(self) -> Change | None:
        """The next change, or None if none is there; after the last one before an error, the error."""
        if self._first is not None:
            first, self._first = self._first, None
            self.lsn = first.lsn or self.lsn
            return first
        if self._held and not self.paused:
            held = self._held.popleft()
            try:
                change = self._change(held)
            except Unplaceable as reason:
                self._give_up(str(reason))
                return None
            self.lsn = held.lsn or self.lsn
            self._shown = None
            return change
        if self.error is not None:
            raise self.error
        return None

    def _begin(self) -> None:
        """The first result is held at once, so that `rows` are there before the first change is asked for."""
        if self._begun or not self._held:
            return
        held = self._held.popleft()
        if not isinstance(held.message, Data) or held.message.update is not Update.FULL:
            self._give_up("the first message is not a whole result")
            return
        self._result.replace(held.message.rows)
        self._begun, self.lsn = True, held.lsn
        self._first = Initial(self.rows, held.lsn)

    def _give_up(self, because: str) -> None:
        self._held.clear()
        self.lose(because)
        self.wants_renewal = True

    def _weigh(self) -> None:
        """Look how much waits; the sum so far counts what was given out as well."""
        self._behind_bytes = sum(held.size_bytes for held in self._held) - self._held[0].size_bytes
        if self._behind_bytes > HELD_BYTES:
            self._merge_held()
            self._behind_bytes = 0

    def _merge_held(self) -> None:
        """Put the net of what is held in its place, so that a reader who is behind costs no more than two results."""
        ahead, count = self._result.copy(), len(self._held)
        try:
            for held in self._held:
                ahead.apply(held.message)
        except Unplaceable as reason:
            self._give_up(str(reason))
            return
        because = f"the reader was behind: {count} messages are merged into one"
        net = Held(Data(NOBODY, Update.FULL, tuple(ahead)), 0, because, self._held[-1].lsn)
        self._held = deque([net])

    def _change(self, held: Held) -> Change:
        message, lsn = held.message, held.lsn
        if isinstance(message, PartialData):
            return self._updated(self._result.update(message.rows), lsn)
        match message.update:
            case Update.FULL:
                return self._renewed(message.rows, held)
            case Update.INSERT:
                self._result.insert(message.rows)
                return Inserted(self._all(message.rows), lsn)
            case Update.DELETE:
                self._result.delete(message.rows)
                return Deleted(self._all(message.rows), lsn)
            case Update.UPDATE:
                return self._updated(self._result.update(list(map(whole, message.rows))), lsn)

    def _updated(self, pairs: Sequence[tuple[RawRow, RawRow]], lsn: str | None) -> Updated:
        return Updated(tuple(Replaced(self._row(old), self._row(new)) for old, new in pairs), lsn)

    def _renewed(self, rows: Sequence[RawRow], held: Held) -> Renewed:
        came, went = difference(self._result, rows)
        self._result.replace(rows)
        return Renewed(self._all(rows), self._all(came), self._all(went), held.because, held.lsn)

    def _all(self, rows: Sequence[RawRow]) -> tuple[Row, ...]:
        return tuple(map(self._row, rows))

    def _row(self, row: RawRow) -> Row:
        # A SQL_ASCII database may hold what is no UTF-8; it comes through as lone surrogates.
        texts = [None if value is None else value.decode("utf-8", "surrogateescape") for value in row]
        if not self.decoders:
            return tuple(texts)
        decoders = self.decoders
        return tuple(
            decoders[place](text) if text is not None and place in decoders else text
            for place, text in enumerate(texts)
        )
