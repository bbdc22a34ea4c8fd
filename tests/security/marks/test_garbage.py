"""A mark that cannot be read ends nobody: it may have touched anything, and is counted."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proto.positions import Lsn, Xid
from proto.streams.changes import ChangesReader, SchemaChanged
from services.cli.tail import _note
from services.recompute.core.schema_marks import read_mark
from tests.property import wal
from tests.unit.capture.test_assembly import FENCE, HEADER, START

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tag", "objects", "oid", "x"]), inner),
    max_leaves=8,
)
GARBAGE = st.binary(max_size=30) | JSON.map(lambda value: json.dumps(value).encode())


@given(GARBAGE)
@example(b"x")
@example(b"")
@example(b"[]")
@example(b"null")
@example(b'{"objects": 1}')
@example(b'{"objects": [1]}')
@example(b'{"objects": [{"oid": {}}]}')
@example(b'{"objects": [{"oid": [1], "name": {"a": []}}]}')
@example(b'{"objects": null, "tag": []}')
@example(b"[" * 3000)
@example(b'{"objects": [{"oid": 1e400}]}')
@example(b"\xff\xfe")
def test_no_description_of_a_mark_raises(description):
    mark = read_mark(description)
    assert hash(mark) is not None
    assert list(_note(SchemaChanged(commit_lsn=Lsn(1), ordinal=0, xid=Xid(1), description=description)))


@pytest.mark.parametrize("description", [b"x", b"\xff", b"[]", b'{"objects": [{"oid": "y"}]}'])
def test_a_mark_that_cannot_be_read_may_be_about_any_table(description):
    mark = read_mark(description)
    assert (mark.is_unreadable, mark.is_blank) == (True, True)


def test_a_message_of_an_unknown_kind_in_the_log_keeps_its_place_and_tells_nothing():
    """As an older capture wrote them, or a newer one will."""
    shape = wal.relation(1, width=1, identity="d")
    begin = wal.Transaction(1, 110, 120, 0, ())
    stray = wal.message("tidewire.actor", b"somebody").raw
    entries = [begin.begin, stray, wal.insert(shape, b"1").raw, stray, wal.insert(shape, b"2").raw, begin.commit]
    record = HEADER._record(START)
    record.segment.first_seq = 1
    record.segment.relations.append(wal.relation_bytes(shape))
    record.segment.entries = b"".join(len(entry).to_bytes(4) + entry for entry in entries)
    reader = ChangesReader()
    events = [*reader.feed(FENCE), *reader.feed(record.SerializeToString())]
    rows = [(event.seq, event.ordinal) for event in events if hasattr(event, "operation")]
    assert (rows, any(isinstance(event, SchemaChanged) for event in events)) == ([(1, 1), (2, 3)], False)
