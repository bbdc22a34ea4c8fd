"""The newest part of the log in memory, against a list that keeps everything."""

from hypothesis import given
from hypothesis import strategies as st

from proto.pgoutput.messages import Column, Relation
from proto.streams.changes import RowChanged
from services.gateway.core.cdc.tail import LOOKS_KEPT, Tail, TailLimits

RELATIONS = [Relation(oid, "public", f"t{oid}", "d", (Column("id", 23, -1, True),)) for oid in range(4)]


def change(seq, oid, size=1):
    return RowChanged(
        seq=seq,
        commit_lsn=seq,
        ordinal=0,
        xid=1,
        commit_time_us=0,
        relation=RELATIONS[oid],
        operation="insert",
        before=None,
        after=(b"x" * size,),
    )


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000)), max_size=200),
    st.integers(1, 50),
    st.integers(1, 50_000),
    st.sets(st.integers(0, 3)),
    st.integers(0, 10),
)
def test_what_is_held_is_the_newest_and_found_by_table(written, events, held_bytes, tables, after):
    tail = Tail(TailLimits(events, held_bytes))
    for seq, (oid, size) in enumerate(written, start=1):
        tail.add(change(seq, oid, size))
    every = [(seq, oid) for seq, (oid, _) in enumerate(written, start=1)]
    assert tail.latest == len(written)
    assert len(tail) <= events
    assert tail.held_bytes <= held_bytes or len(tail) == 1
    after = max(after, tail.first - 1)
    found = [(entry.change.seq, entry.change.relation.oid) for entry in tail.after(after, tables)]
    assert found == [(seq, oid) for seq, oid in every if seq > after and oid in tables]


def test_bytes_that_are_kept_for_others_count():
    tail = Tail(TailLimits(10, 3_000))
    for seq in (1, 2):
        tail.add(change(seq, 0))
    entries = list(tail.after(0, [0]))
    before = tail.held_bytes
    for look in range(LOOKS_KEPT + 1):
        tail.keep(entries[1], look, b"x" * 100)
    assert tail.held_bytes == before + LOOKS_KEPT * 100
    tail.keep(entries[0], "look", b"x" * 5_000)
    assert (tail.first, len(tail)) == (2, 1)
    tail.keep(entries[0], "other", b"x")  # it has left
    assert "other" not in entries[0].encoded
