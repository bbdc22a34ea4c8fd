"""What readers of a query are told: deltas that they can fold, and never one that they would drop."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.rows import decode_block
from proto.streams.deltas import Verdict, judge, standing_after
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    FULL_REASON_RECOVERED,
    FULL_REASON_REORDERED,
    FULL_REASON_SCHEMA_CHANGED,
    DeltaRecord,
    ResultColumn,
    Snapshot,
)
from services.recompute.core.emitted import Emitted
from services.recompute.core.result import Position, Result, error_delta, failed_at

QUERY = bytes(16)
COLUMNS = [ResultColumn(name="n", type_oid=23, type_modifier=-1)]
ROWS = st.lists(st.tuples(st.sampled_from([b"1", b"2", b"3", None])), max_size=6)


def result(*, ordered=False, columns=COLUMNS):
    return Result(QUERY, 1, columns, (), ordered=ordered)


class Reader:
    """Follows the contract."""

    def __init__(self):
        self.rows, self.standing = Counter(), None

    def read(self, deltas):
        kinds = []
        for delta in deltas:
            assert judge(self.standing, delta) is Verdict.APPLY
            if delta.kind == DELTA_KIND_FULL:
                self.rows = Counter()
            for row, weight in decode_block(delta.rows):
                self.rows[row] += weight
            self.rows = Counter({row: count for row, count in self.rows.items() if count})
            self.standing = standing_after(delta)
            assert self.rows.total() == delta.row_count
            kinds.append(delta.kind)
        return kinds


@given(states=st.lists(ROWS, min_size=1, max_size=6), ordered=st.booleans(), stride=st.integers(0, 2))
def test_a_reader_holds_each_state_and_so_does_one_who_takes_over(states, ordered, stride):
    live, reader, emitted = result(ordered=ordered), Reader(), Emitted()
    list(live.begin(states[0], Position(10, 0), None))
    first = list(live.whole())
    reader.read(first)
    for record in first:
        emitted.feed(DeltaRecord(epoch=1, writer=1, delta=record))
    for number, rows in enumerate(states[1:], 1):
        deltas = list(live.replace(rows, Position(10 + number * stride, 0)))
        reader.read(deltas)
        for delta in deltas:
            emitted.feed(DeltaRecord(epoch=1, writer=1, delta=delta))
        assert reader.rows == Counter(rows)
        assert emitted.states[QUERY].rows == Counter(rows)
        assert emitted.states[QUERY].standing == reader.standing


@pytest.mark.parametrize("how", ["progress", "replace"])
def test_a_takeover_knows_the_rows_of_a_result_that_moved_on_before_it_was_first_shown(how):
    live, emitted = result(), Emitted()
    list(live.begin([(b"1",)], Position(10, 0), None))
    # It was evaluated beside the loop, or waited for its barrier, and commits came meanwhile.
    moved = live.progress(Position(11, 0)) if how == "progress" else live.replace([(b"2",)], Position(11, 0))
    for delta in moved:
        emitted.feed(DeltaRecord(epoch=1, writer=1, delta=delta))
    assert emitted.states[QUERY].rows is None
    for whole in live.whole():
        emitted.feed(DeltaRecord(epoch=1, writer=1, snapshot=Snapshot(request_id=b"first", result=whole)))
    assert emitted.states[QUERY] == live.state
    for delta in live.replace([(b"3",)], Position(12, 0)):
        emitted.feed(DeltaRecord(epoch=1, writer=1, delta=delta))
    assert emitted.states[QUERY] == live.state


def test_a_whole_result_does_not_undo_an_error_at_the_same_place():
    live, emitted = result(), Emitted()
    list(live.begin([(b"1",)], Position(10, 0), None))
    emitted.feed(DeltaRecord(epoch=1, writer=1, delta=error_delta(QUERY, 1, Position(10, 0), "22012", "by zero")))
    for whole in live.whole():
        emitted.feed(DeltaRecord(epoch=1, writer=1, snapshot=Snapshot(request_id=b"late", result=whole)))
    assert emitted.states[QUERY].is_error


@given(before=ROWS, after=ROWS)
def test_a_takeover_tells_the_net_change(before, after):
    first, reader = result(), Reader()
    list(first.begin(before, Position(10, 5), None))
    reader.read(first.whole())
    second = result()
    kinds = reader.read(second.begin(after, Position(12, 0), first.state))
    assert reader.rows == Counter(after) and DELTA_KIND_FULL not in kinds


def test_a_takeover_at_the_same_commit_is_not_dropped():
    first, reader = result(), Reader()
    list(first.begin([(b"1",)], Position(10, 5), None))
    reader.read(first.whole())
    reader.read(result().begin([(b"2",)], Position(10, 5), first.state))
    assert reader.rows == Counter([(b"2",)])


def test_a_pure_change_of_order_comes_whole_and_in_order():
    live = result(ordered=True)
    list(live.begin([(b"1",), (b"2",), (b"1",)], Position(10, 0), None))
    (delta,) = live.replace([(b"2",), (b"1",), (b"1",)], Position(11, 0))
    assert (delta.kind, delta.full_reason) == (DELTA_KIND_FULL, FULL_REASON_REORDERED)
    assert [row for row, _ in decode_block(delta.rows)] == [(b"2",), (b"1",), (b"1",)]
    assert list(live.replace([(b"2",), (b"1",), (b"1",)], Position(12, 0))) == []


def test_other_columns_and_a_recovery_come_whole():
    live = result()
    list(live.begin([(b"1",)], Position(10, 0), None))
    wider = result(columns=[*COLUMNS, ResultColumn(name="m", type_oid=25, type_modifier=-1)])
    (delta,) = wider.begin([(b"1", b"x")], Position(11, 0), live.state)
    assert delta.full_reason == FULL_REASON_SCHEMA_CHANGED
    failed = failed_at(error_delta(QUERY, 1, Position(11, 0), "22012", "division by zero"))
    (delta,) = result().begin([(b"1",)], Position(11, 0), failed)
    assert (delta.full_reason, delta.to_lsn, delta.moment_us) == (FULL_REASON_RECOVERED, 11, 1)


def test_progress_moves_the_commit_and_keeps_the_moment():
    live, reader = result(), Reader()
    list(live.begin([(b"1",)], Position(10, 77), None))
    reader.read(live.whole())
    reader.read(live.progress(Position(20, 99)))
    assert (live.position, list(live.progress(Position(20, 100)))) == (Position(20, 77), [])
    assert reader.read(live.change({(b"2",): 1}, Position(21, 0))) == [DELTA_KIND_NET]
