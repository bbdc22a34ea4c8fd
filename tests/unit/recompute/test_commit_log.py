"""What is kept of a transaction until it is whole: the rows of tables that are read, within a bound."""

import tracemalloc

import pytest

from proto.pgoutput.messages import Relation
from proto.positions import Lsn, Seq, Xid
from proto.streams.changes import ChangeUnwritable, Committed, RowChanged, SchemaChanged, Truncated
from services.recompute.flow.worker import Worker
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.open_transaction import NOT_READ, ROW_BYTES, TOO_LARGE, VALUE_BYTES

READ, OTHER = Relation(1, "public", "read", "d", ()), Relation(2, "public", "other", "d", ())
LSN, XID = Lsn(100), Xid(7)
WHERE = {"commit_lsn": LSN, "xid": XID, "commit_time_us": 0}
SIZE = ROW_BYTES + VALUE_BYTES + 10


def row(relation, number=0):
    after = (b"%010d" % number,)
    at = {"seq": Seq(number), "ordinal": number, **WHERE}
    return RowChanged(relation=relation, operation="insert", before=None, after=after, **at)


def truncate(relation):
    return Truncated(relation=relation, seq=Seq(0), ordinal=0, cascade=False, restart_identity=False, **WHERE)


DDL = SchemaChanged(commit_lsn=LSN, ordinal=0, xid=XID, description=b"{}")
COMMIT = Committed(commit_lsn=LSN, end_lsn=Lsn(101), xid=XID, commit_time_us=0, next_seq=Seq(0))


class Log:
    """A follower of what a test writes."""

    def __init__(self):
        self.written, self.offset = [], 0

    def read(self, _timeout_s):
        written, self.written = self.written, []
        for event in written:
            self.offset += 1
            yield event

    def end(self):
        return self.offset + len(self.written)


@pytest.fixture
def log():
    return Log()


def commit_log(log, most_bytes=1 << 30):
    made = CommitLog(log, most_bytes=most_bytes)
    made.keep_rows_of(lambda oid: oid == READ.oid)
    return made


def read(commits, log, *events):
    log.written = [*events, COMMIT]
    [commit] = commits.read(0)
    return commit.events


def notes(events):
    return [(event.relation.oid, event.reason) for event in events if isinstance(event, ChangeUnwritable)]


def test_rows_of_tables_that_are_read_are_handed_out_in_their_order(log):
    events = (row(READ, 1), DDL, truncate(READ), row(READ, 2))
    assert read(commit_log(log), log, *events) == events


def test_a_table_that_nobody_reads_leaves_one_note(log):
    kept = read(commit_log(log), log, *(row(OTHER, number) for number in range(1000)), row(READ))
    assert kept[0] == row(READ) and len(kept) == 2
    assert notes(kept) == [(OTHER.oid, NOT_READ)]


def test_a_large_transaction_on_a_table_that_nobody_reads_takes_no_memory(log):
    commits = commit_log(log)
    commits._follower.read = lambda _timeout_s: (row(OTHER, number) for number in range(50_000))
    tracemalloc.start()
    try:
        assert list(commits.read(0)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_table_that_is_read_from_the_middle_of_a_transaction_on_is_taken_anew(log):
    commits = commit_log(log)
    log.written = [row(OTHER, 1)]
    assert list(commits.read(0)) == []
    commits.keep_rows_of(lambda oid: True)
    kept = read(commits, log, row(OTHER, 2), row(READ))
    assert kept[:-1] == (row(READ),) and notes(kept) == [(OTHER.oid, NOT_READ)]


def test_above_the_bound_the_largest_table_is_taken_anew(log):
    small = Relation(3, "public", "small", "d", ())
    commits = commit_log(log, most_bytes=10 * SIZE)
    commits.keep_rows_of(lambda oid: True)
    kept = read(commits, log, row(small), *(row(READ, number) for number in range(100)), DDL, row(small, 1))
    assert kept[:-1] == (row(small), DDL, row(small, 1))
    assert notes(kept) == [(READ.oid, TOO_LARGE)]
    # The next transaction has the whole bound again.
    again = tuple(row(READ, number) for number in range(10))
    assert read(commits, log, *again) == again


@pytest.mark.parametrize("at", [0, 5, 50])
def test_a_truncate_is_told_before_the_note(log, at):
    rows = [row(READ, number) for number in range(100)]
    kept = read(commit_log(log, most_bytes=10 * SIZE), log, *rows[:at], truncate(READ), *rows[at:])
    assert kept[0] == truncate(READ) and len(kept) == 2 and notes(kept) == [(READ.oid, TOO_LARGE)]


def test_rows_read_while_catching_up_are_not_kept(log):
    commits = commit_log(log)
    log.written = [row(READ, 1)]
    commits.catch_up(lambda: None)
    assert notes(read(commits, log, row(READ, 2))) == [(READ.oid, NOT_READ)]


class Unused:
    """A part that the worker is built with and this test does not use."""

    def __getattr__(self, name: str) -> "Unused":
        return self

    def __call__(self, *args: object, **more: object) -> "Unused":
        return self


def test_a_worker_without_queries_keeps_no_rows(log):
    commits = CommitLog(log)
    others = (
        "queries deltas notify planner tables spark_tick source_runs publisher judge under_way failures metrics log"
    )
    Worker(commit_log=commits, recheck_s=1.0, **dict.fromkeys(others.split(), Unused()))
    assert notes(read(commits, log, row(READ, 1), row(READ, 2))) == [(READ.oid, NOT_READ)]
