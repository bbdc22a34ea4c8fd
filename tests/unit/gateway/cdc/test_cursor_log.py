"""What is on the topic `cursors`, folded: cursors never fall, and what was closed is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from proto.tidewire.v1.cursors_pb2 import CdcCursor, CdcSubscription, CursorRecord, PreparedQuery
from services.gateway.outbound.cursor_log import folded


def cursor(acked, version=0, paused=False, history=1):
    made = CdcCursor(sub_id="a", history=history, acked_seq=acked, paused=paused, flag_version=version)
    return b"c/a", CursorRecord(cdc_cursor=made).SerializeToString()


SUBSCRIPTION = b"s/a", CursorRecord(cdc_subscription=CdcSubscription(sub_id="a", start_seq=5)).SerializeToString()
QUERY = b"q/q_1", CursorRecord(prepared_query=PreparedQuery(query_id="q_1", sql="SELECT 1")).SerializeToString()


def numbered(*records):
    return [(offset, key, value) for offset, (key, value) in enumerate(records)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), min_size=1))
def test_s22_the_greatest_counts_in_whatever_order_gateways_wrote(written):
    """S24: of the flag, the highest version."""
    records = [cursor(acked, version, paused=version % 2 == 1) for acked, version in written]
    found, offset = folded(numbered(SUBSCRIPTION, *records)).cursors["a"]
    highest = max(version for _, version in written)
    assert (found.acked_seq, found.flag_version) == (max(acked for acked, _ in written), highest)
    assert (found.paused, offset) == (highest % 2 == 1, len(written))


def test_s23_a_tombstone_forgets():
    found = folded(numbered(SUBSCRIPTION, cursor(7), QUERY, (b"s/a", None), (b"c/a", None), (b"q/q_1", None)))
    assert (found.subscriptions, found.cursors, found.queries) == ({}, {}, {})


def test_a_cursor_that_comes_late_brings_nothing_back():
    found = folded(numbered(SUBSCRIPTION, (b"s/a", None), (b"c/a", None), cursor(9)))
    assert found.subscriptions == {}
