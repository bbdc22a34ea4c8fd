"""Segments: what is counted, what is left out, and that the cuts do not matter."""

from hypothesis import example, given
from hypothesis import strategies as st

from proto.positions import Lsn, Seq
from proto.streams.changes import ChangesReader, ChangeUnwritable
from proto.streams.fencing import Writer
from proto.tidewire.v1.changes_pb2 import Fence
from services.capture.core.assembly import Assembly, Position
from services.capture.core.records import Header
from tests.property import wal
from tests.property.story import COMMIT, Story, read

HEADER = Header(identity=Writer(1, 1), history=1, system_identifier=7, timeline=1)
START = Position(Lsn(100), Seq(1))
FENCE = HEADER.fence(Fence(history_lsn=100, history_seq=1, begins_history=True), START).SerializeToString()


def written(
    transactions: list[wal.Transaction],
    cuts: set[int],
    *,
    start: Position = START,
    from_lsn: int = 100,
    header: Header = HEADER,
    record_bytes: int = 120,
):
    """The records of a capture that cuts behind these messages and at the end."""
    assembly, records = Assembly(start, row_limit_bytes=1 << 20), []
    for number, message in enumerate(wal.Walsender(transactions, from_lsn).more()):
        assembly.add(message)
        if number in cuts and (cut := assembly.cut()):
            records += header.segments(cut, record_bytes=record_bytes)
    if cut := assembly.cut():
        records += header.segments(cut, record_bytes=record_bytes)
    return [record.SerializeToString() for record in records]


TURNING_BACK = [
    ("commit", (("insert", 0), ("alter", 0, 2, "n"), ("insert", 0), ("alter", 0, 3, "d"), ("insert", 0))),
]


@given(st.lists(COMMIT, max_size=8), st.sets(st.integers(0, 60)))
@example(TURNING_BACK, set())
def test_what_comes_out_does_not_depend_on_the_cuts(commits, cuts):
    transactions = Story().tell(commits).world.transactions
    (_, run) = read([FENCE, *written(transactions, cuts)])
    assert run.events == wal.expected(transactions, 100, 1)


@given(st.lists(COMMIT, min_size=1, max_size=8), st.data())
def test_a_capture_that_starts_behind_a_commit_counts_as_the_one_that_wrote_it(commits, data):
    transactions = Story().tell(commits).world.transactions
    place = data.draw(st.sampled_from(transactions))
    done = [event for event in wal.expected(transactions, 100, 1) if event[0] <= place.commit_lsn]
    seq = 1 + sum(event[3] in ("row", "truncate") for event in done if len(event) > 3)
    confirmed = data.draw(st.sampled_from([100, *(t.end_lsn for t in transactions if t.end_lsn <= place.end_lsn)]))
    records = written(transactions, set(), start=Position(Lsn(place.end_lsn), Seq(seq)), from_lsn=confirmed)
    events = [event for run in read(records) for event in run.events]
    assert events == [event for event in wal.expected(transactions, 100, 1) if event[0] > place.commit_lsn]


def test_a_row_over_the_limit_becomes_an_error_in_its_place():
    shape = wal.relation(1, width=2, identity="d")
    assembly = Assembly(START, row_limit_bytes=100)
    ops = (wal.insert(shape, b"small"), wal.insert(shape, b"x" * 60), wal.insert(shape, b"next"))
    for message in wal.Walsender([wal.Transaction(1, 110, 120, 0, ops)], 100).more():
        assembly.add(message)
    record = HEADER._record(START)
    record.segment.CopyFrom(assembly.cut().segment)
    events = list(ChangesReader().feed(record.SerializeToString()))
    assert [event.seq for event in events if hasattr(event, "seq")] == [1, 2, 3]
    (unwritable,) = (event for event in events if isinstance(event, ChangeUnwritable))
    assert (unwritable.operation, unwritable.seq) == ("insert", 2)
    assert "120 bytes" in unwritable.reason


def test_an_idle_capture_says_how_far_the_wal_has_been_told_and_never_goes_back():
    assembly = Assembly(START, row_limit_bytes=100)
    assert assembly.idle_until(Lsn(500)) == Position(Lsn(500), Seq(1))
    assert assembly.idle_until(Lsn(400)) == Position(Lsn(500), Seq(1))


def test_a_transaction_that_comes_again_in_a_new_history_shows_its_unread_table_again():
    """Whoever reads drops an open transaction where a history begins."""
    shape = wal.relation(1, width=2, identity="d")
    transaction = wal.Transaction(7, 120, 130, 1, tuple(wal.insert(shape, b"%d" % n) for n in range(3)), ())
    again = Header(identity=Writer(2, 2), history=2, system_identifier=7, timeline=1)
    second = again.fence(Fence(history_lsn=100, history_seq=1, begins_history=True), START).SerializeToString()
    first, _ = written([transaction], {3}, record_bytes=10_000)
    log = [FENCE, first, second, *written([transaction], set(), header=again)]
    rows = [[event[1] for event in run.events if "row" in event] for run in read(log, lambda oid: False)]
    assert rows == [[], [1], [1]]
