"""A database snapshot, and which transactions of the log it contains.

"Visible in the snapshot" and "before me in the log" are different orders: a commit is in the log before it is visible,
for long if it waits for a synchronous standby. So a snapshot alone is the state at no place of the log. The state at a
place behind it is the snapshot and every transaction of the log up to there that the snapshot does not see.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from msgspec import Struct

from proto.positions import Xid

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


class Exported(Struct, frozen=True):
    """A snapshot that other sessions can import while its transaction is open."""

    snapshot: Snapshot
    name: str


@contextmanager
def export(connection: psycopg.Connection) -> Iterator[Exported]:
    """Open a REPEATABLE READ transaction and export its snapshot; the block reads the base on `connection`.

    The connection must be in autocommit mode and idle. An ordinary snapshot, not the one of a new slot: creating a slot
    waits for every transaction that is writing.
    """
    # It only reads: whatever else was brought about inside is undone.
    with connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        snapshot, name = _one(connection, "SELECT pg_current_snapshot()::text, pg_export_snapshot()")
        yield Exported(Snapshot.parse(snapshot), name)


def _one(connection: psycopg.Connection, query: LiteralString) -> tuple[str, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row
