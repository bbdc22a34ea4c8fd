"""A TRUNCATE among the changes of a transaction: each row that it took away is one of its own."""

import msgspec

from proto.pgoutput.messages import Column, Relation
from proto.streams.changes import Truncated
from proto.streams.topic_marks import RowsTruncated
from proto.tidewire.v1.topic_states_pb2 import RoutesPosition, TopicState
from services.recompute.core.topics.definition import Definition, Route, write_definition
from services.recompute.core.topics.routing import MOST_ROWS, SEQ_BITS, Place
from services.recompute.core.topics.source_table import SourceTable, SourceTables
from services.recompute.flow.topics.group import TopicGroup
from services.recompute.flow.topics.transaction import OpenCommit
from services.recompute.inbound.topic_states import Standing

RELATION = Relation(5, "app", "t", "f", (Column("id", 23, -1, True),))
TABLE = SourceTable(oid=5, schema="app", name="t", owner="o", key=("id",), leaves=(5,), readers=frozenset({"ann"}))
ROUTE = Route(route=0, table_oid=5, source_schema="app", source_table="t", op="Delete", payload_mode="Key", role="ann")


def group() -> TopicGroup:
    definition = write_definition(Definition(topic_id="a", name="a", routes=(ROUTE,)))
    position = RoutesPosition(history=1, lsn=1, ordinal=1, first_seq=1)
    made = TopicGroup(0, None, None, Standing(position, {"a": TopicState(topic_id="a", definition=definition)}))
    made.use(SourceTables({5: TABLE}))
    return made


def noted(ordinal: int, *ids: str) -> RowsTruncated:
    content = msgspec.json.encode({"relid": "5", "columns": ["id"], "rows": [[one] for one in ids]})
    return RowsTruncated(commit_lsn=9, ordinal=ordinal, content=content)


def test_rows_of_one_truncate_share_the_seq_and_have_a_number_each():
    commit, groups = OpenCommit(), [group()]
    truncated = Truncated(
        seq=7,
        commit_lsn=9,
        ordinal=3,
        xid=1,
        commit_time_us=0,
        relation=RELATION,
        cascade=False,
        restart_identity=False,
    )
    for event in (noted(1, "1", "2"), noted(2, "3"), truncated):
        commit.take(event, 1, groups)
    found = commit.drain()[0]
    assert [(one.change.before, one.place.seq) for one in found] == [((b"1",), 7), ((b"2",), 7), ((b"3",), 7)]
    numbers = [one.place.number for one in found]
    assert numbers[0] == 7 and len(set(numbers)) == 3


def test_a_number_fits_into_a_bigint_whatever_the_seq_and_the_row():
    last = Place(history=1, seq=(1 << SEQ_BITS) - 1, lsn=1, ordinal=1, committed_us=0, row=MOST_ROWS + 5)
    assert last.number == (1 << 63) - 1
