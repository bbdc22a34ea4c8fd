"""The replication slot: its state, its creation and its end."""

from collections.abc import Callable
from threading import Thread

import psycopg
from psycopg.errors import ConfigurationLimitExceeded, ObjectInUse, UndefinedObject

from proto.positions import parse_lsn
from services.capture.core.continuity import Slot
from services.capture.errors import NoFreeSlot, SlotForeign, SlotInUse

LOOK_EVERY_S = 0.2


def find(connection: psycopg.Connection, name: str) -> Slot | None:
    row = connection.execute(
        """
        SELECT plugin, database, confirmed_flush_lsn::text, coalesce(wal_status = 'lost', false), current_database()
        FROM pg_replication_slots WHERE slot_name = %s
        """,
        (name,),
    ).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, lost, here = row
    if plugin != "pgoutput" or database != here:
        raise SlotForeign(name, plugin, database)
    return Slot(confirmed_lsn=parse_lsn(confirmed or "0/0"), lost=lost)


def holder(connection: psycopg.Connection, name: str) -> int | None:
    row = connection.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (name,)).fetchone()
    return row[0] if row else None


def kept_bytes(connection: psycopg.Connection, name: str) -> int:
    """How much WAL PostgreSQL keeps for the slot; 0 if there is none."""
    row = connection.execute(
        """
        SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint
        FROM pg_replication_slots WHERE slot_name = %s
        """,
        (name,),
    ).fetchone()
    return int(row[0]) if row else 0


def drop(connection: psycopg.Connection, name: str) -> None:
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    except UndefinedObject:
        return
    except ObjectInUse as error:
        raise SlotInUse(name, holder(connection, name)) from error


def create(connection: psycopg.Connection, name: str, *, while_waiting: Callable[[], None]) -> Slot:
    """Waits for every transaction that is writing now, since PostgreSQL can decode none of them from its middle."""
    failures: list[psycopg.Error] = []

    def run() -> None:
        try:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
        except psycopg.Error as error:
            failures.append(error)

    creation = Thread(target=run, name="create slot", daemon=True)
    creation.start()
    try:
        while creation.is_alive():
            while_waiting()
            creation.join(LOOK_EVERY_S)
    except BaseException:
        connection.cancel()
        creation.join()
        raise
    for error in failures:
        if isinstance(error, ConfigurationLimitExceeded):
            raise NoFreeSlot(name, str(error).strip()) from error
        raise error
    slot = find(connection, name)
    assert slot is not None
    return slot
