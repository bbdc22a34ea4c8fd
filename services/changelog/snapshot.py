"""The prefix snapshot: a database snapshot S and the log, put together to the exact state at a place of the log.

"Visible in S" and "before me in the log" are different orders: a commit is in the log before it is visible, for long if
it waits for a synchronous standby. So S alone is the state at no place. The state at a fence F, taken after S, is S and
every transaction of the log up to F that S does not see.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import LiteralString

import psycopg
from msgspec import Struct

from proto.positions import Lsn, Xid, parse_lsn
from proto.streams.changes import BarrierPassed, ChangeEvent, Committed, HistoryBegan, Idle, SchemaSeen
from services.chassis import barrier

_XIDS = 1 << 32
_FIRST_NORMAL_XID = 3


class Snapshot(Struct, frozen=True):
    """PostgreSQL's pg_snapshot: xids below `xmin` have ended, from `xmax` on none has begun, `in_progress` run.

    Its xids are 64 bits wide. The log has the lower 32 bits of top-level xids; these are never further than 2^31 apart
    from the snapshot's, or PostgreSQL would have stopped.
    """

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        try:
            xmin, xmax, in_progress = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in in_progress.split(",") if xid))
        except ValueError:
            raise ValueError(f"{text!r} is not a pg_snapshot: expected xmin:xmax:xip,…") from None

    def sees(self, xid: Xid) -> bool:
        """Whether a transaction that has committed is contained in what the snapshot shows."""
        if xid < _FIRST_NORMAL_XID:
            return True
        full = self.widened(xid)
        return full < self.xmin or (full < self.xmax and full not in self.in_progress)

    def widened(self, xid: Xid) -> int:
        """The 64-bit xid nearest to the snapshot's with these lower 32 bits."""
        distance = (xid - self.xmax) % _XIDS
        return self.xmax + (distance - _XIDS if distance >= _XIDS // 2 else distance)

    def is_prefix(self, before: Iterable[Xid], after: Iterable[Xid]) -> bool:
        """Whether this is the state at a place of the log, with the xids that commit at or before it, and after it."""
        return all(self.sees(xid) for xid in before) and not any(self.sees(xid) for xid in after)


class Exported(Struct, frozen=True):
    """A snapshot that other sessions can import while its transaction is open, and the fence taken after it."""

    snapshot: Snapshot
    name: str
    barrier_id: str
    # All that committed before this position, and was not waiting for a standby, is visible.
    lsn: Lsn


@contextmanager
def export(connection: psycopg.Connection, fencing: psycopg.Connection) -> Iterator[Exported]:
    """Open a REPEATABLE READ transaction and put the fence behind it; `connection` reads the base inside the block.

    Both must be in autocommit mode and idle. An ordinary snapshot, not the one of a new slot: creating a slot waits for
    every transaction that is writing.
    """
    (lsn,) = _one(connection, "SELECT pg_current_wal_insert_lsn()::text")
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        snapshot, name = _one(connection, "SELECT pg_current_snapshot()::text, pg_export_snapshot()")
        # Only behind the snapshot: whatever S sees has committed in front of this fence.
        yield Exported(Snapshot.parse(snapshot), name, barrier.emit(fencing), parse_lsn(lsn))


def bound(connection: psycopg.Connection) -> int:
    """An xid that is higher than any given out before: taken where the reader stands, it bounds what began earlier.

    It costs an xid. A snapshot's xmax will not do: it is one past the last transaction that has ended, and the one that
    waits for a standby has not.
    """
    return int(_one(connection, "SELECT pg_current_xact_id()::text")[0])


def _one(connection: psycopg.Connection, query: LiteralString) -> tuple[str, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row


class Standing(Enum):
    BEFORE_FENCE = "before the fence"
    COMPLETE = "complete"
    # A new history began between the snapshot and the fence: take another snapshot.
    BROKEN = "broken"


class Prefix:
    """Folds the log, from where the reader stood before the snapshot was taken, up to the fence.

    Hand it each event in order. It gives the transactions to apply on top of the base, whole and in commit order; once
    it stands COMPLETE, base and those are the state at `lsn`.

    `bound` is what `bound()` gave when the reader stood at its beginning. A transaction below it that S does not see
    may have committed in front of that beginning, waiting for a standby. As long as such ones have not come out of the
    log they are `unproven`: then begin to read further back, or take another snapshot when they have ended.
    """

    def __init__(self, exported: Exported, *, bound: int) -> None:
        self.standing = Standing.BEFORE_FENCE
        self.lsn: Lsn | None = None
        self._snapshot, self._barrier_id, self._lsn = exported.snapshot, exported.barrier_id, exported.lsn
        self._unproven = {xid for xid in exported.snapshot.in_progress if xid < bound}
        self._open: list[ChangeEvent] = []
        self._passed = False

    @property
    def unproven(self) -> frozenset[int]:
        """In progress in S, begun before the reader did, and not come out of the log."""
        return frozenset(self._unproven)

    def feed(self, event: ChangeEvent) -> list[ChangeEvent]:
        """The whole transaction that this event ends, if it must be applied; else nothing."""
        if self.standing is not Standing.BEFORE_FENCE:
            return []
        if isinstance(event, HistoryBegan | Idle):
            if isinstance(event, HistoryBegan):
                self._open = []
                # Of a history that began before S, all is here that S may lack.
                self.standing = Standing.BROKEN if event.lsn > self._lsn else self.standing
            return []
        self._open.append(event)
        if isinstance(event, BarrierPassed) and event.barrier_id == self._barrier_id:
            self._passed = True
        return self._close(event) if isinstance(event, Committed) else []

    def _close(self, committed: Committed) -> list[ChangeEvent]:
        transaction, self._open = self._open, []
        self._unproven.discard(self._snapshot.widened(committed.xid))
        if self._passed:
            self.standing, self.lsn = Standing.COMPLETE, committed.commit_lsn
        if self._snapshot.sees(committed.xid):
            # Shapes are told once: those of a transaction that is left out are needed by the next one that is not.
            return [event for event in transaction if isinstance(event, SchemaSeen)]
        return transaction
