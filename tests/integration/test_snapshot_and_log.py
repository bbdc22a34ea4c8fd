"""A snapshot taken in the midst of writers, and what the log has beyond it, are exactly the table."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import psycopg
import pytest

from proto.streams.changes import BarrierPassed, ChangeEvent, Committed, RowChanged, Truncated
from services.changelog import barrier
from services.changelog.follower import ChangesFollower
from services.changelog.snapshot import Snapshot, export
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.postgres import PostgresServer, start_postgres

TABLE = "CREATE TABLE account (id int PRIMARY KEY, amount int)"
WITHIN_S = 60.0


def apply(rows: dict[bytes, bytes], events: list[ChangeEvent]) -> None:
    for event in events:
        if isinstance(event, Truncated):
            rows.clear()
        elif isinstance(event, RowChanged):
            if event.operation == "delete" or event.before is not None:
                rows.pop(event.before[0])
            if event.after is not None:
                rows[event.after[0]] = event.after[1]


def base(connection: psycopg.Connection) -> dict[bytes, bytes]:
    rows = connection.execute("SELECT id::text, amount::text FROM account").fetchall()
    return {key.encode(): amount.encode() for key, amount in rows}


def events(follower: ChangesFollower) -> Iterator[ChangeEvent]:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        yield from follower.read(0.2)
    raise TimeoutError("the log did not come so far")


def up_to_barrier(stream: Iterator[ChangeEvent], snapshot: Snapshot, rows: dict[bytes, bytes], barrier_id: str) -> None:
    """Apply the transactions that the snapshot does not see, up to the one with the barrier."""
    transaction: list[ChangeEvent] = []
    is_passed = False
    for event in stream:
        transaction.append(event)
        is_passed |= isinstance(event, BarrierPassed) and event.barrier_id == barrier_id
        if isinstance(event, Committed):
            if not snapshot.sees(event.xid):
                apply(rows, transaction)
            transaction = []
            if is_passed:
                return


class Writers:
    """Sessions that move amounts about, with savepoints and rollbacks, until they are stopped."""

    def __init__(self, dsn: str, count: int) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(dsn, number)) for number in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, dsn: str, number: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            turn = 0
            while not self._over.is_set():
                turn += 1
                key = number * 1_000_000 + turn
                with connection.transaction(force_rollback=turn % 7 == 0):
                    connection.execute("INSERT INTO account VALUES (%s, 0)", (key,))
                    with connection.transaction():
                        connection.execute("UPDATE account SET amount = amount + 1 WHERE id = %s", (key,))
                    if turn % 3 == 0:
                        connection.execute("DELETE FROM account WHERE id = %s", (key - 2,))


def test_snapshot_and_log_make_the_table_again_and_again(captured: CapturedDatabase):
    captured.start().wait_ready()
    with captured.connect() as reading, captured.connect() as writing:
        writing.execute(TABLE)
        for _ in range(5):
            with Writers(captured.dsn, 4):
                # Let them write a little before and after.
                moved(writing, by=40)
                with export(reading) as exported:
                    moved(writing, by=40)
                    rows = base(reading)
            table, last = base(reading), barrier.emit(writing)
            follower = captured.follow()
            up_to_barrier(events(follower), exported.snapshot, rows, last)
            follower.close()
            assert rows == table
            writing.execute("DELETE FROM account")


def moved(connection: psycopg.Connection, by: int) -> None:
    """Returns when so many transactions have ended."""
    until = ended(connection) + by
    deadline = time.monotonic() + WITHIN_S
    while ended(connection) < until and time.monotonic() < deadline:
        time.sleep(0.005)


def ended(connection: psycopg.Connection) -> int:
    return int(connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()[0])


@pytest.fixture
def waiting_server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A commit with synchronous_commit = on waits here for a standby that never comes."""
    settings = {"synchronous_standby_names": "nobody", "synchronous_commit": "local"}
    with start_postgres(tmp_path / "server", settings=settings) as server:
        yield server


@contextmanager
def commit_that_waits(captured: CapturedDatabase, statement: str) -> Iterator[None]:
    """Its transaction is in the WAL, and visible to nobody until the block is left."""
    with captured.connect() as slow, captured.connect() as releasing:
        slow.execute("SET synchronous_commit = on")
        waiting = threading.Thread(target=slow.execute, args=(statement,))
        waiting.start()
        try:
            yield
        finally:
            releasing.execute("SELECT pg_cancel_backend(%s)", (slow.info.backend_pid,))
            waiting.join()


def up_to_the_first_row(stream: Iterator[ChangeEvent]) -> list[ChangeEvent]:
    log, xid = [], 0
    for event in stream:
        log.append(event)
        xid = event.xid if isinstance(event, RowChanged) else xid
        if isinstance(event, Committed) and event.xid == xid:
            break
    return log


def test_a_commit_that_is_in_the_log_and_not_yet_visible_is_not_lost(
    waiting_server: PostgresServer, captured_at: Callable[[str], CapturedDatabase]
):
    captured = captured_at(waiting_server.dsn)
    captured.start().wait_ready()
    with captured.connect() as reading, captured.connect() as writing:
        writing.execute(TABLE)
        follower = captured.follow()
        stream = events(follower)
        with commit_that_waits(captured, "INSERT INTO account VALUES (1, 10)"):
            log = up_to_the_first_row(stream)
            writing.execute("INSERT INTO account VALUES (2, 20)")
            with export(reading) as exported:
                rows = base(reading)
            assert rows == {b"2": b"20"}
            assert not exported.snapshot.sees(log[-1].xid)

            up_to_barrier(chain(log, stream), exported.snapshot, rows, barrier.emit(writing))
            assert rows == {b"1": b"10", b"2": b"20"}
        follower.close()
        assert base(reading) == rows
