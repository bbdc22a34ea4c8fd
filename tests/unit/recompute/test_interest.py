"""Which templates a change concerns."""

import pytest

from proto.pgoutput.messages import ABSENT, Column, Relation
from proto.streams.changes import RowChanged
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.catalog import Column as CatalogColumn
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.interest import Interest
from services.recompute.core.live_query import LiveTemplate
from services.recompute.core.plan import Plan, Read, Strategy

INT4 = PgType(23, "int4")
TABLE = Table(oid=7, schema="public", name="t", columns=tuple(CatalogColumn(name, INT4) for name in "abc"), key=(0,))


def template(number, *places):
    made = LiveTemplate(bytes([number]), Query())
    made.tables = {7: TABLE}
    made.plan = Plan(strategy=Strategy.FULL, why_not={}, columns=(), reads=(Read(7, frozenset(places)),))
    return made


def change(before, after):
    columns = tuple(Column(name=name, type_oid=23, type_modifier=-1, is_identity=True) for name in "abc")
    relation = Relation(oid=7, schema="public", name="t", identity="f", columns=columns)
    return RowChanged(
        seq=1, commit_lsn=1, ordinal=0, xid=1, commit_time_us=0, relation=relation,
        operation="update", before=before, after=after,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        ((b"1", b"2", b"3"), (b"1", b"2", b"4"), {2}),
        ((b"1", b"2", b"3"), (b"1", b"2", b"3"), set()),
        ((b"1", b"2", b"3"), (b"1", b"9", ABSENT), {1}),
        ((b"1", ABSENT, ABSENT), (b"1", b"2", b"3"), {1, 2}),
        (None, (b"1", b"2", b"3"), {1, 2}),
        ((b"1", b"2", b"3"), None, {1, 2}),
    ],
)
def test_a_change_of_columns_that_are_not_read_concerns_nobody(before, after, concerned):
    interest = Interest()
    interest.set(template(1, 0, 1))
    interest.set(template(2, 2))
    assert {one.id[0] for one in interest.concerned_by([change(before, after)])} == concerned


def test_a_new_plan_replaces_what_the_old_one_read():
    interest = Interest()
    interest.set(template(1, 1))
    interest.set(template(1, 2))
    assert list(interest.concerned_by([change((b"1", b"2", b"3"), (b"1", b"9", b"3"))])) == []
    interest.forget(b"\x01")
    assert not interest.reads(TABLE.oid)
