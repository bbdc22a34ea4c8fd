"""What capture notes about its takeovers in the watched database, next to what it watches."""

import psycopg

from services.capture.core.continuity import Ledger


class Noted(Ledger, frozen=True, kw_only=True):
    """The ledger, and where in the log the last noted fence stands."""

    fence_offset: int


def read(connection: psycopg.Connection) -> Noted:
    row = connection.execute("SELECT epoch, fenced, history, fence_offset FROM tidewire.capture").fetchone()
    assert row is not None
    epoch, fenced, history, fence_offset = row
    return Noted(epoch=epoch, fenced=fenced, history=history, fence_offset=fence_offset)


def reserve_epoch(connection: psycopg.Connection, above: int) -> int:
    """An epoch that no other capture has or gets, higher than any in the log."""
    row = connection.execute(
        "UPDATE tidewire.capture SET epoch = greatest(epoch, %s) + 1 RETURNING epoch", (above,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def note_fenced(connection: psycopg.Connection, *, epoch: int, history: int, fence_offset: int) -> None:
    connection.execute(
        "UPDATE tidewire.capture SET fenced = %s, history = %s, fence_offset = %s WHERE fenced < %s",
        (epoch, history, fence_offset, epoch),
    )
