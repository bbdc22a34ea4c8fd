"""One live result as a strict client merges it: what does not fit what it holds is an error, not a repair."""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from uuid import UUID

from msgspec import Struct

from proto.pgwire.live import Data, PartialData, PartialRow, Selective, Subscribe, Update
from proto.positions import Lsn
from proto.rows import ResultRow
from tests.oracle.case import Question

# V34: deletes, partial rows, updates, inserts; a whole result stands alone.
_PLACES = {Update.FULL: 0, Update.DELETE: 1, "partial": 2, Update.UPDATE: 3, Update.INSERT: 4}


class Broken(AssertionError):
    """What the protocol promises did not hold."""


class Phase(Enum):
    WANTED = "wanted"  # not asked for on this connection yet
    ASKED = "asked"
    LIVE = "live"
    FAILED = "failed"  # its query has no result for now
    OVER = "over"  # refused, or failed before its first result


class State(Struct, frozen=True):
    """Where a batch led to."""

    lsn: Lsn
    rows: tuple[ResultRow, ...]
    # A whole result: its rows stand in the query's order.
    is_full: bool


class Subscription:
    """`key` are the result columns that tell its rows apart, as whoever knows the schema knows; empty if none do."""

    def __init__(
        self, question: Question, at: int, key: tuple[int, ...] = (), selective: Selective | None = None
    ) -> None:
        self.question, self.at, self.key, self.selective = question, at, key, selective
        self.states: list[State] = []
        # How many commits there were when it was asked for, and where its first result stood; of each life.
        self.firsts: list[tuple[int, Lsn]] = []
        self.words = ""
        # How often it began anew: after a reconnect, or when it was told to come again.
        self.lives = 0
        self.messages = 0
        self.rows_told = 0
        self.want()

    def want(self) -> None:
        """Nothing is held: it is to be subscribed to, perhaps again."""
        self.phase, self.id = Phase.WANTED, None
        self.rows: Counter[ResultRow] = Counter()
        self.order: tuple[ResultRow, ...] = ()
        self.paused = self.is_silent = False
        # How many commits there were when it was resumed, until something came after that.
        self.resumed_at: int | None = None
        self.asked_at = 0
        self._lsn = Lsn(0)
        self._batch: list[object] = []
        self._held: dict[ResultRow, ResultRow] = {}
        self._begun = False

    @property
    def message(self) -> Subscribe:
        values = tuple(None if value is None else value.encode() for value in self.question.parameters)
        return Subscribe(self.question.sql, values, self.question.filter or None, self.selective)

    def asked(self, commits: int) -> None:
        self.phase, self.asked_at = Phase.ASKED, commits
        self.lives += 1

    def acknowledged(self, subscription: UUID) -> None:
        self._must(self.phase is Phase.ASKED, "a second Ack")
        self.phase, self.id = Phase.LIVE, subscription

    def refused(self, words: str) -> None:
        """SubscriptionError: before its first result it is over, later there is no result for now."""
        self._must(not self._batch, "an error inside a batch")
        self.words = words
        self.phase = Phase.FAILED if self._begun else Phase.OVER

    def take(self, message: Data | PartialData) -> None:
        self._must(self.phase in (Phase.LIVE, Phase.FAILED), f"data while {self.phase.value}")
        self._must(not self.is_silent, "data while paused")
        kind = message.update if isinstance(message, Data) else "partial"
        self._must(self._begun or kind is Update.FULL, f"{kind} before the whole result")
        self._must(self.phase is Phase.LIVE or kind is Update.FULL or bool(self._batch), f"{kind} after an error")
        self._must(not self._batch or _PLACES[self._batch[-1]] < _PLACES[kind], f"{kind} after {self._batch}")
        self._must(kind is Update.FULL or bool(message.rows), f"{kind} without rows")
        self._batch.append(kind)
        self.messages += 1
        self.rows_told += len(message.rows)
        self._apply(kind, message.rows)
        self._begun, self.phase = True, Phase.LIVE

    def reached(self, lsn: Lsn) -> None:
        """The batch is closed: what is held was committed."""
        self._must(bool(self._batch), "the end of a batch without messages")
        self._must(lsn >= self._lsn, f"at {lsn} after {self._lsn}")
        rows = self.order if self._batch == [Update.FULL] else tuple(self.rows.elements())
        self.states.append(State(lsn, rows, self._batch == [Update.FULL]))
        if not self._lsn:
            self.firsts.append((self.asked_at, lsn))
        self._lsn, self._batch, self.resumed_at = lsn, [], None

    def _apply(self, kind: object, rows: Iterable[ResultRow] | Iterable[PartialRow]) -> None:
        if kind is Update.FULL:
            self.rows, self.order, self._held = Counter(), tuple(rows), {}
            self._each(rows, self._add)
        elif kind is Update.INSERT:
            self._each(rows, self._add)
        elif kind is Update.DELETE:
            self._each(rows, self._drop)
        elif kind is Update.UPDATE:
            self._each(rows, self._replace)
        else:
            self._each(rows, self._complete)

    def _each(self, rows: Iterable[object], act: Callable[[object], None]) -> None:
        for row in rows:
            act(row)

    def _add(self, row: ResultRow) -> None:
        if self.key:
            key = self._key_of(row)
            self._must(key not in self._held, f"a second row {row} beside {self._held.get(key)}")
            self._held[key] = row
        self.rows[row] += 1

    def _drop(self, row: ResultRow) -> None:
        self._must(self.rows[row] > 0, f"the end of a row that is not held: {row}")
        self.rows[row] -= 1
        if not self.rows[row]:
            del self.rows[row]
        if self.key:
            del self._held[self._key_of(row)]

    def _replace(self, row: ResultRow) -> None:
        self._must(bool(self.key), f"an update of a result without a key: {row}")
        before = self._held.get(self._key_of(row))
        if before is None:
            raise self._broken(f"an update of a row that is not held: {row}")
        self._must(before != row, f"an update that changes nothing: {row}")
        self._drop(before)
        self._add(row)

    def _complete(self, partial: PartialRow) -> None:
        self._must(bool(self.key), f"a partial row of a result without a key: {partial}")
        self._must(set(self.key) <= set(partial.values), f"a partial row without its key: {partial}")
        before = self._held.get(tuple(partial.values[at] for at in self.key))
        if before is None:
            raise self._broken(f"a part of a row that is not held: {partial}")
        self._must(len(before) == partial.columns, f"{partial} of {before}")
        self._replace(tuple(partial.values.get(at, value) for at, value in enumerate(before)))

    def _key_of(self, row: ResultRow) -> ResultRow:
        return tuple(row[at] for at in self.key)

    def _must(self, holds: bool, words: str) -> None:
        if not holds:
            raise self._broken(words)

    def _broken(self, words: str) -> Broken:
        return Broken(f"{self.question.asked} {self.question.parameters}: {words}")
