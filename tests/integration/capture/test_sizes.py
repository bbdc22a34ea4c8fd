"""Large transactions leave capture small; large rows pass; a row that is too large costs nothing but itself."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.pgoutput.messages import ABSENT, Row
from proto.streams.changes import ChangeEvent, ChangeUnwritable, Committed, RowChanged
from tests.fixtures.capture import CapturedDatabase, CaptureProcess

MIB = 1 << 20
ROWS = 1_000_000
MEMORY_LIMIT = 300 * MIB
# Capture's own default, not the haste of the other tests: such a row takes a second of work without a sign of life.
PATIENT = {"wal_sender_timeout_ms": "10000"}


def peak_memory(process: CaptureProcess) -> int:
    """The most memory that the process ever had, in bytes."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def random_text(mib: int, seed: int) -> str:
    """Text that does not compress, so that nothing makes it smaller on its way."""
    return random.Random(seed).randbytes(mib * MIB // 2).hex()


def outline(row: Row | None) -> list[object]:
    """Each value by its beginning and its length."""
    return [(value[:8], len(value)) if isinstance(value, bytes) else value for value in row or ()]


def assert_one_whole_transaction(events: Iterator[ChangeEvent], operation: str, first_seq: int) -> None:
    """Without keeping them: every row once, in order, of one commit."""
    expected, commits = first_seq, set()
    for event in events:
        if isinstance(event, RowChanged) and event.operation == operation:
            assert event.seq == expected and event.ordinal == expected - first_seq
            row = event.after or event.before
            assert row is not None and row[0] == b"%d" % (expected - first_seq + 1)
            commits.add(event.commit_lsn)
            expected += 1
    assert expected == first_seq + ROWS and len(commits) == 1


@pytest.mark.slow
def test_a_transaction_of_a_million_rows_passes_with_little_memory(captured: CapturedDatabase):
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO goods SELECT n, 'number ' || n FROM generate_series(1, %s) n", [ROWS])
    assert_one_whole_transaction(captured.each_event_up_to_now(within_s=200), "insert", first_seq=1)
    assert peak_memory(capture) < MEMORY_LIMIT


@pytest.mark.chaos
def test_an_update_and_a_delete_of_a_million_full_rows_pass_with_little_memory(captured: CapturedDatabase):
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int, name text)")
        connection.execute("INSERT INTO goods SELECT n, 'number ' || n FROM generate_series(1, %s) n", [ROWS])
        connection.execute("UPDATE goods SET name = name || '!'")
        connection.execute("DELETE FROM goods")
    for operation, first_seq in (("insert", 1), ("update", ROWS + 1), ("delete", 2 * ROWS + 1)):
        assert_one_whole_transaction(captured.each_event_up_to_now(within_s=600), operation, first_seq)
    assert peak_memory(capture) < MEMORY_LIMIT


@pytest.mark.slow
def test_rows_of_sixty_mebibytes_pass_intact(captured: CapturedDatabase):
    captured.start(**PATIENT).wait_ready()
    first, second = random_text(60, seed=1), random_text(60, seed=2)
    with captured.connect() as connection:
        connection.execute("CREATE TABLE keyed (id int PRIMARY KEY, body text)")
        connection.execute("CREATE TABLE keyless (id int, body text)")
        for table in ("keyed", "keyless"):
            connection.execute(f"INSERT INTO {table} VALUES (1, %s)", [first])
            connection.execute(f"UPDATE {table} SET body = %s", [second])
            connection.execute(f"UPDATE {table} SET id = 2")
            connection.execute(f"DELETE FROM {table}")
    old, new = first.encode(), second.encode()
    expected = [
        ("keyed", "insert", None, (b"1", old)),
        ("keyed", "update", None, (b"1", new)),
        ("keyed", "update", (b"1", ABSENT), (b"2", ABSENT)),
        ("keyed", "delete", (b"2", ABSENT), None),
        ("keyless", "insert", None, (b"1", old)),
        ("keyless", "update", (b"1", old), (b"1", new)),
        ("keyless", "update", (b"1", new), (b"2", new)),
        ("keyless", "delete", (b"2", new), None),
    ]
    seen = 0
    for event in captured.each_event_up_to_now(within_s=120):
        if isinstance(event, RowChanged):
            # A plain assert of equality would print both sides.
            same = (event.relation.name, event.operation, event.before, event.after) == expected[seen]
            assert same, (
                f"change {seen} is {event.seq} {event.operation} {outline(event.before)} {outline(event.after)}"
            )
            seen += 1
    assert seen == len(expected)


@pytest.mark.slow
def test_a_row_over_the_limit_is_told_of_and_everything_else_goes_on(captured: CapturedDatabase):
    capture = captured.start(**PATIENT).wait_ready()
    giant = random_text(70, seed=3)
    with captured.connect() as connection:
        connection.execute("CREATE TABLE giants (id int, body text); CREATE TABLE goods (id int PRIMARY KEY)")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (1)")
            connection.execute("INSERT INTO giants VALUES (1, %s)", [giant])
            connection.execute("INSERT INTO goods VALUES (2)")
        connection.execute("UPDATE giants SET body = 'small'")
        connection.execute("INSERT INTO goods VALUES (3)")
    events = captured.events_up_to_now(within_s=120)
    changes = [event for event in events if isinstance(event, RowChanged | ChangeUnwritable)]
    assert [(event.seq, type(event).__name__, event.relation.name) for event in changes] == [
        (1, "RowChanged", "goods"),
        (2, "ChangeUnwritable", "giants"),
        (3, "RowChanged", "goods"),
        (4, "ChangeUnwritable", "giants"),
        (5, "RowChanged", "goods"),
    ]
    refused = [event for event in changes if isinstance(event, ChangeUnwritable)]
    assert [event.operation for event in refused] == ["insert", "update"]
    assert all(str(70 * MIB + 1) in event.reason and "ROW_LIMIT_BYTES" in event.reason for event in refused)
    assert changes[0].commit_lsn == changes[1].commit_lsn == changes[2].commit_lsn
    assert len({event.commit_lsn for event in events if isinstance(event, Committed)}) >= 3
    assert capture.ready()
