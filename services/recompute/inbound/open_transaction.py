"""The transaction that is being read: rows of tables that queries read, as far as memory allows.

Other tables are only noted as changed and to be loaded again: a query may begin to read one meanwhile, and its load
may use a snapshot that does not see the transaction.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from proto.streams.changes import ChangeUnwritable, RowChanged, SchemaChanged, Truncated

# Memory for the rows of one transaction: about a million rows of a few columns.
MOST_BYTES = 512 * 1024 * 1024
# Overhead of a row, and of a value.
ROW_BYTES, VALUE_BYTES = 250, 40

NOT_READ = "nobody read the table when the transaction came"
TOO_LARGE = "one transaction changed more than is kept in memory"

RelationEvent: TypeAlias = RowChanged | Truncated | ChangeUnwritable
TableEvent: TypeAlias = RelationEvent | SchemaChanged


class OpenTransaction:
    """Collects events one by one; `events` are those of the whole transaction."""

    def __init__(self, is_read: Callable[[int], bool], most_bytes: int) -> None:
        self._is_read, self._most_bytes = is_read, most_bytes
        self._kept: list[TableEvent] = []
        self._bytes: Counter[int] = Counter()
        self._total_bytes = 0
        # The note of each table whose rows are not kept.
        self._emptied: dict[int, Truncated] = {}
        self._touched: dict[int, ChangeUnwritable] = {}

    @property
    def events(self) -> tuple[TableEvent, ...]:
        """The notes come last: a TRUNCATE must not hide what came behind it."""
        return (*self._kept, *self._emptied.values(), *self._touched.values())

    def add(self, event: TableEvent) -> None:
        if isinstance(event, SchemaChanged):
            self._kept.append(event)
            return
        oid = event.relation.oid
        if oid not in self._touched and not self._is_read(oid):
            self._touched[oid] = _note(event, NOT_READ)
        if oid in self._touched:
            if isinstance(event, Truncated):
                self._emptied[oid] = event
            return
        self._kept.append(event)
        size = _size(event)
        self._bytes[oid] += size
        self._total_bytes += size
        if self._total_bytes > self._most_bytes:
            self._shed()

    def _shed(self) -> None:
        """Drop the rows of the table that has most of them, and note it as changed."""
        [(largest, size)] = self._bytes.most_common(1)
        kept: list[TableEvent] = []
        for event in self._kept:
            if isinstance(event, SchemaChanged) or event.relation.oid != largest:
                kept.append(event)
                continue
            self._touched.setdefault(largest, _note(event, TOO_LARGE))
            if isinstance(event, Truncated):
                self._emptied[largest] = event
        self._kept = kept
        self._total_bytes -= size
        del self._bytes[largest]


def _note(event: RelationEvent, reason: str) -> ChangeUnwritable:
    """Note that the table changed, and has to be loaded from the database."""
    return ChangeUnwritable(
        seq=event.seq,
        commit_lsn=event.commit_lsn,
        ordinal=event.ordinal,
        xid=event.xid,
        commit_time_us=event.commit_time_us,
        relation=event.relation,
        operation="truncate" if isinstance(event, Truncated) else event.operation,
        reason=reason,
    )


def _size(event: RelationEvent) -> int:
    if not isinstance(event, RowChanged):
        return ROW_BYTES
    return ROW_BYTES + sum(
        VALUE_BYTES + (len(value) if isinstance(value, bytes) else 0)
        for row in (event.before, event.after)
        if row is not None
        for value in row
    )
