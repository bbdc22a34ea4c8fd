"""The barrier: a mark in commit order, by which anybody can wait until the log has reached his own commit."""

from uuid import uuid4

import psycopg

from proto.streams.changes import BARRIER_PREFIX


def emit(connection: psycopg.Connection) -> str:
    """Put a barrier into the WAL and return its id; on a connection in a transaction it counts from the commit."""
    barrier_id = uuid4().hex
    connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", (BARRIER_PREFIX, barrier_id))
    return barrier_id
