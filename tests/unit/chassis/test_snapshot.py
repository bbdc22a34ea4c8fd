"""What a snapshot sees of the log's 32-bit xids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.changelog.snapshot import Snapshot

FULL_XIDS = st.integers(3, 2**40)


def test_a_snapshot_is_read_as_postgres_writes_it():
    assert Snapshot.parse("10:20:10,14,15") == Snapshot(10, 20, frozenset({10, 14, 15}))
    assert Snapshot.parse("10:10:") == Snapshot(10, 10, frozenset())


@pytest.mark.parametrize("text", ["", "10", "10:20", "a:b:", "10:20:x", "1:2:3:4"])
def test_what_is_not_a_snapshot_is_refused(text):
    with pytest.raises(ValueError, match="pg_snapshot"):
        Snapshot.parse(text)


@given(FULL_XIDS, st.integers(0, 1000), st.sets(st.integers(0, 999)), st.integers(-(2**31) + 2000, 2**31 - 2000))
def test_the_lower_half_of_an_xid_is_enough_across_wraparounds(xmin, width, running, distance):
    snapshot = Snapshot(xmin, xmin + width, frozenset(xmin + step for step in running if step < width))
    full = xmin + distance
    if full < 3 or full % 2**32 < 3:
        return
    truth = full < snapshot.xmin or (full < snapshot.xmax and full not in snapshot.in_progress)
    assert snapshot.sees(full % 2**32) == truth


def test_a_snapshot_contains_what_ended_before_it_and_not_what_ran():
    snapshot = Snapshot.parse("10:20:12")
    assert [xid for xid in (9, 11, 12, 19, 20) if snapshot.sees(xid)] == [9, 11, 19]
