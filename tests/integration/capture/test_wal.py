"""PostgreSQL keeps no more WAL for capture than capture still needs, however little its own database writes."""

import os

import psycopg
import pytest

from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import wait_until

MIB = 1 << 20
NOISE_BYTES = 200 * MIB
LAG_LIMIT = 16 * MIB


@pytest.fixture
def neighbour(postgres_server: PostgresServer):
    """Another database of the same server."""
    name = f"neighbour_{os.getpid()}"
    with psycopg.connect(postgres_server.create_database(name), autocommit=True) as connection:
        yield connection
    postgres_server.drop_database(name)


def make_noise(connection: psycopg.Connection) -> None:
    """Write this much WAL that has nothing to do with the database that is watched."""
    (before,) = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
    connection.execute("CREATE TABLE noise AS SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 100000) n")
    for _ in range(20):
        connection.execute("UPDATE noise SET n = n + 1")
        (written,) = connection.execute("SELECT pg_current_wal_lsn() - %s::pg_lsn", [before]).fetchone()
        if written > NOISE_BYTES:
            return
    raise AssertionError(f"only {written} bytes of WAL came of it")


def lag(connection: psycopg.Connection) -> tuple[int, int]:
    """Bytes of WAL that the slot has not confirmed, and that it keeps from being removed."""
    # Which WAL is needed is decided at the next record of running transactions, which a checkpoint writes.
    connection.execute("CHECKPOINT")
    return connection.execute(
        """
        SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::int8, (pg_current_wal_lsn() - restart_lsn)::int8
        FROM pg_replication_slots WHERE slot_name = 'tidewire' AND database = current_database()
        """
    ).fetchone()


@pytest.mark.slow
def test_a_busy_neighbour_of_an_idle_database_does_not_let_wal_pile_up(
    captured: CapturedDatabase, neighbour: psycopg.Connection
):
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        make_noise(neighbour)
        wait_until(lambda: max(lag(connection)) < LAG_LIMIT, lambda: (lag(connection), capture.output()))
    assert capture.ready()


@pytest.mark.slow
def test_wal_of_an_idle_database_itself_is_let_go(captured: CapturedDatabase):
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        # Nothing of this is a change of a tracked table: a temporary and an unlogged one, and rows that are taken back.
        connection.execute("CREATE TABLE kept (id int PRIMARY KEY, body text)")
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO kept SELECT n, repeat(md5(n::text), 60) FROM generate_series(1, 30000) n")
        connection.execute(
            "SELECT pg_logical_emit_message(false, 'stranger', repeat('x', 900000)) FROM generate_series(1, 40)"
        )
        wait_until(lambda: max(lag(connection)) < LAG_LIMIT, lambda: (lag(connection), capture.output()))


@pytest.mark.slow
def test_a_capture_that_only_waits_writes_no_wal_of_its_own(captured: CapturedDatabase):
    """Else an idle server would archive a segment now and then for nothing but us."""
    capture = captured.start(heartbeat_s="0.1", sweep_s="0.1").wait_ready()
    with captured.connect() as connection:

        def heartbeats() -> int:
            follower = captured.follow()
            try:
                return follower.end()
            finally:
                follower.close()

        def is_still() -> bool:
            """Nothing but the server's own records of running transactions within twenty heartbeats."""
            (before,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            beats = heartbeats()
            wait_until(lambda: heartbeats() >= beats + 20, capture.output)
            (written,) = connection.execute("SELECT (pg_current_wal_insert_lsn() - %s)::int8", [before]).fetchone()
            return written < 10_000

        wait_until(is_still, capture.output)
