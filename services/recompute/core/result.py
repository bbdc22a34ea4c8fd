"""The result of one query, and the deltas that describe its changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from proto.multiset import EMPTY, shifted
from proto.positions import Lsn
from proto.rows import ResultRow
from proto.streams.deltas import Standing
from proto.streams.parts import cut
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    DELTA_KIND_PROGRESS,
    FULL_REASON_FIRST,
    FULL_REASON_NEW_HISTORY,
    FULL_REASON_RECOVERED,
    FULL_REASON_REORDERED,
    FULL_REASON_SCHEMA_CHANGED,
    FULL_REASON_STATE_LOST,
    Delta,
    FullReason,
    ResultColumn,
)


class Position(Struct, frozen=True, order=True):
    """A position behind a commit: its LSN, and the time that now() has there."""

    lsn: Lsn
    moment_us: int


NOWHERE = Position(Lsn(0), 0)


class State(Struct, frozen=True):
    """The last published state of a query; rows are None if they are not known, or if it was an error."""

    standing: Standing
    rows: Counter[ResultRow] | None
    columns: tuple[bytes, ...]
    is_error: bool = False
    state_hash: bytes = EMPTY

    def next_position(self, position: Position) -> Position:
        """The position, or the first one behind this state: readers drop a delta that is not behind it."""
        return max(position, Position(self.standing.lsn, self.standing.moment_us + 1))


class Result:
    """The rows of a query at a commit; every change of them comes out as the deltas to write."""

    def __init__(
        self,
        query_id: bytes,
        history: int,
        columns: Iterable[ResultColumn],
        key_positions: Iterable[int],
        *,
        ordered: bool = False,
    ) -> None:
        self._query_id, self._history = query_id, history
        self._columns, self._key_positions = list(columns), list(key_positions)
        self.rows: Counter[ResultRow] = Counter()
        # The rows in the result's order, if it has one.
        self._order: list[ResultRow] | None = [] if ordered else None
        self._hash = EMPTY
        self.position = NOWHERE

    def begin(self, rows: Sequence[ResultRow], position: Position, told: State | None) -> Iterator[Delta]:
        """Set the first rows; yields the deltas for readers that know an earlier state."""
        self.rows = Counter(rows)
        self._hash = shifted(EMPTY, self.rows.items())
        self._order = None if self._order is None else list(rows)
        self.position = position
        if told is None:
            return
        came_from = Position(told.standing.lsn, told.standing.moment_us)
        if told.standing.history == self._history:
            self.position = told.next_position(position)
        reason = self._why_full(told)
        if reason is not None:
            yield from self._full(came_from, reason)
            return
        assert told.rows is not None
        yield from self._moved(came_from, _net(told.rows, self.rows))

    def replace(self, rows: Sequence[ResultRow], position: Position) -> Iterator[Delta]:
        """Replace the rows at a later commit; if only the order changed, the whole result is sent."""
        after = Counter(rows)
        net = _net(self.rows, after)
        reordered = self._order is not None and self._order != list(rows)
        self._order = None if self._order is None else list(rows)
        if net:
            yield from self.change(net, position)
        elif reordered:
            came_from, self.position = self.position, self._behind(position)
            yield from self._full(came_from, FULL_REASON_REORDERED)

    def change(self, net: Mapping[ResultRow, int], position: Position) -> Iterator[Delta]:
        """Add and remove rows; yields nothing for no change."""
        if not net:
            return
        for row, weight in net.items():
            self.rows[row] += weight
            if not self.rows[row]:
                del self.rows[row]
        self._hash = shifted(self._hash, net.items())
        came_from, self.position = self.position, self._behind(position)
        yield from self._moved(came_from, net)

    def move(
        self, net: Mapping[ResultRow, int], order: list[ResultRow], position: Position, *, is_reordered: bool
    ) -> Iterator[Delta]:
        """Add and remove rows of an ordered result, which has this order from now on."""
        self._order = order
        if net:
            yield from self.change(net, position)
        elif is_reordered:
            came_from, self.position = self.position, self._behind(position)
            yield from self._full(came_from, FULL_REASON_REORDERED)

    def progress(self, position: Position) -> Iterator[Delta]:
        """Move the position on without a change of rows, so that old and new readers are at the same place."""
        if position.lsn > self.position.lsn:
            # The value of now() stays the one that the rows were computed with.
            came_from, self.position = self.position, Position(position.lsn, self.position.moment_us)
            yield from self._moved(came_from, {})

    def whole(self) -> Iterator[Delta]:
        """The whole result, for a reader without a state."""
        return self._full(NOWHERE, FULL_REASON_FIRST)

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        return tuple(self._columns)

    @property
    def state_hash(self) -> bytes:
        return self._hash

    def listed(self) -> Iterator[ResultRow]:
        """Each row as often as it is in the result, in the result's order if it has one."""
        return self.rows.elements() if self._order is None else iter(self._order)

    @property
    def state(self) -> State:
        """The state that readers have after all deltas so far."""
        standing = Standing(self._history, self.position.lsn, self.position.moment_us)
        return State(standing, Counter(self.rows), columns_key(self._columns), state_hash=self._hash)

    def _why_full(self, told: State) -> FullReason | None:
        if told.standing.history != self._history:
            return FULL_REASON_NEW_HISTORY
        if told.is_error:
            return FULL_REASON_RECOVERED
        if told.rows is None:
            return FULL_REASON_STATE_LOST
        return FULL_REASON_SCHEMA_CHANGED if told.columns != columns_key(self._columns) else None

    def _moved(self, came_from: Position, net: Mapping[ResultRow, int]) -> Iterator[Delta]:
        delta = self._delta(came_from)
        delta.kind = DELTA_KIND_NET if net else DELTA_KIND_PROGRESS
        return cut(delta, net.items())

    def _full(self, came_from: Position, reason: FullReason) -> Iterator[Delta]:
        delta = self._delta(came_from)
        delta.kind, delta.full_reason = DELTA_KIND_FULL, reason
        delta.columns.extend(self._columns)
        return cut(delta, self.rows.items() if self._order is None else ((row, 1) for row in self._order))

    def _behind(self, position: Position) -> Position:
        """The position, or the first one behind ours: PostgreSQL may be asked twice at the same commit."""
        return max(position, Position(self.position.lsn, self.position.moment_us + 1))

    def _delta(self, came_from: Position) -> Delta:
        return Delta(
            query_id=self._query_id,
            from_lsn=came_from.lsn,
            from_moment_us=came_from.moment_us,
            to_lsn=self.position.lsn,
            moment_us=self.position.moment_us,
            history=self._history,
            key_positions=self._key_positions,
            state_hash=self._hash,
            row_count=self.rows.total(),
        )


def _net(before: Counter[ResultRow], after: Counter[ResultRow]) -> dict[ResultRow, int]:
    return {row: after[row] - before[row] for row in {**after, **before} if after[row] != before[row]}


def error_delta(query_id: bytes, history: int, position: Position, sqlstate: str, message: str) -> Delta:
    return Delta(
        query_id=query_id,
        to_lsn=position.lsn,
        moment_us=position.moment_us,
        history=history,
        kind=DELTA_KIND_ERROR,
        last=True,
        error_sqlstate=sqlstate,
        error_message=message,
    )


def failed_at(error: Delta) -> State:
    """The state of readers after an error."""
    return State(Standing(error.history, Lsn(error.to_lsn), error.moment_us), None, (), is_error=True)


def columns_key(columns: Iterable[ResultColumn]) -> tuple[bytes, ...]:
    """The columns in a form that can be compared."""
    return tuple(column.SerializeToString(deterministic=True) for column in columns)
