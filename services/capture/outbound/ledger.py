"""Capture's record of its takeovers, kept in the watched database."""

import psycopg

from services.capture.core.continuity import Ledger
from services.capture.errors import SlotTaken


class Noted(Ledger, frozen=True, kw_only=True):
    """The ledger, and where in the log the last noted fence stands."""

    fence_offset: int


def read(connection: psycopg.Connection) -> Noted:
    row = connection.execute("SELECT epoch, fenced, history, fence_offset FROM _tidewire.capture").fetchone()
    assert row is not None
    epoch, fenced, history, fence_offset = row
    return Noted(epoch=epoch, fenced=fenced, history=history, fence_offset=fence_offset)


def reserve(
    connection: psycopg.Connection, *, slot: str, walsender_pid: int, above: int, history_above: int | None
) -> tuple[int, int]:
    """An epoch, and a history if one begins, that no other capture has or gets, higher than any in the log.

    Only while our walsender holds the slot: so a later holder has the higher epoch, and a capture that was stalled
    behind its judgement cannot fence off the one that took its place.
    """
    with connection.transaction():
        connection.execute("SELECT FROM _tidewire.capture FOR UPDATE")
        holder = connection.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (slot,)
        ).fetchone()
        if holder is None or holder[0] != walsender_pid:
            raise SlotTaken(slot)
        row = connection.execute(
            """
            UPDATE _tidewire.capture SET epoch = greatest(epoch, %s) + 1,
                   history = CASE WHEN %s::bigint IS NULL THEN history ELSE greatest(history, %s::bigint) + 1 END
            RETURNING epoch, history
            """,
            (above, history_above, history_above),
        ).fetchone()
    assert row is not None
    epoch, history = row
    return epoch, history


def note_fenced(connection: psycopg.Connection, *, epoch: int, history: int, fence_offset: int) -> None:
    connection.execute(
        "UPDATE _tidewire.capture SET fenced = %s, history = greatest(history, %s), fence_offset = %s"
        " WHERE fenced < %s",
        (epoch, history, fence_offset, epoch),
    )
