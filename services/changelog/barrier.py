"""The barrier: a mark in the log by which a client can wait until the log has passed its own commit."""

from uuid import uuid4

import psycopg
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName, ReadOnlySqlTransaction, UndefinedFunction

from proto.positions import Lsn, parse_lsn
from services.chassis import own_schema
from services.chassis.postgres import PostgresRefused

# The slot has this name unless the operator chose another; then it is the one of this database.
_CAPTURED = """
SELECT confirmed_flush_lsn::pg_catalog.text FROM pg_catalog.pg_replication_slots
WHERE plugin = 'pgoutput' AND database = pg_catalog.current_database()
ORDER BY slot_name = 'tidewire' DESC, active DESC LIMIT 1
"""


class BarrierForbidden(PostgresRefused):
    """The service's role may not write barriers, which are for services alone."""

    def __init__(self, role: str) -> None:
        Exception.__init__(
            self,
            f"role {role!r} may not write barriers: have an administrator run GRANT USAGE ON SCHEMA _tidewire and "
            f"GRANT EXECUTE ON FUNCTION _tidewire.barrier(text) TO {role!r}",
        )
        self.role = role


def emit(connection: psycopg.Connection) -> str:
    """Put a barrier into the WAL and return its id; on a connection in a transaction it counts from the commit.

    In a database that capture has not come to yet there is none, and the id never comes out of the log; whoever waits
    for one writes another in time.
    """
    barrier_id = uuid4().hex
    try:
        _write(connection, barrier_id)
    except ReadOnlySqlTransaction:
        # The role is read-only by default: allow the one write.
        connection.execute("SET default_transaction_read_only = off")
        _write(connection, barrier_id)
    return barrier_id


def position(connection: psycopg.Connection) -> Lsn:
    """Where the WAL is now: at or behind a barrier that was written before on this connection."""
    row = connection.execute("SELECT pg_catalog.pg_current_wal_insert_lsn()::pg_catalog.text").fetchone()
    assert row is not None
    return parse_lsn(row[0])


def captured(connection: psycopg.Connection) -> Lsn | None:
    """How far capture has written the log of changes; None if no slot of it is found."""
    row = connection.execute(_CAPTURED).fetchone()
    return None if row is None or row[0] is None else parse_lsn(row[0])


def _write(connection: psycopg.Connection, barrier_id: str) -> None:
    if not own_schema.exists(connection):
        return
    try:
        connection.execute("SELECT _tidewire.barrier(%s)", (barrier_id,))
    except (InvalidSchemaName, UndefinedFunction):
        return
    except InsufficientPrivilege as refusal:
        raise BarrierForbidden(connection.info.user) from refusal
