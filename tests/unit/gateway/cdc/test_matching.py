"""Filters on single changes, and events made of them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgoutput.messages import ABSENT, Column, Relation
from proto.streams.changes import RowChanged
from services.gateway.core.cdc.events import Columns, Look, event_of, sse_control, sse_event, ws_frame
from services.gateway.core.cdc.keys import KeyColumn, equality_of, order_of
from services.gateway.core.cdc.matching import rules_of
from services.gateway.core.cdc.subscription import (
    KeyFilter,
    Owner,
    Subscription,
    Wishes,
    from_record,
    to_record,
    wishes_of,
)
from services.gateway.core.cdc.table import Table
from services.gateway.core.cdc.types import Family
from services.gateway.errors import RpcRefused
from tests.conformance.skeindb import vector

RELATION = Relation(
    1, "public", "users", "f", (Column("id", 23, -1, True), Column("name", 25, -1, True), Column("email", 25, -1, True))
)
COLUMNS = Columns.of(RELATION, {})
TABLE = Table(
    oid=1,
    schema="public",
    name="users",
    columns=frozenset({"id", "name", "email"}),
    key=(KeyColumn(name="id", family=Family.SIGNED, type_name="integer"),),
    has_old_rows=True,
    members=frozenset({1}),
)


def change(operation="insert", before=None, after=None, seq=124):
    return RowChanged(
        seq=seq,
        commit_lsn=1,
        ordinal=0,
        xid=1,
        commit_time_us=1_710_000_000_000_000,
        relation=RELATION,
        operation=operation,
        before=before,
        after=after,
    )


def passes(made, keys=None, **wishes):
    return rules_of(TABLE, Wishes(**wishes), keys or KeyFilter()).match(made, COLUMNS.places)


ADA, GRACE = (b"1", b"Ada", b"ada@x"), (b"1", b"Grace", b"ada@x")


def test_s11_a_column_must_differ():
    assert passes(change("update", ADA, GRACE), columns=("name",))
    assert not passes(change("update", ADA, GRACE), columns=("email",))
    assert passes(change("update", ADA, GRACE), columns=("email", "name"))
    # What the log does not tell may have changed.
    assert passes(change("update", None, GRACE), columns=("email",))


def test_s12_a_missing_image_has_no_values():
    assert passes(change("insert", None, ADA), columns=("name",))
    assert not passes(change("insert", None, (b"1", None, None)), columns=("name",))
    assert passes(change("delete", ADA, None), columns=("name",))


def test_s13_all_filters_must_pass():
    update = change("update", ADA, GRACE)
    one = KeyFilter(exact=("1",))
    assert passes(update, one, ops=("update",), columns=("name",))
    assert not passes(update, KeyFilter(exact=("2",)), ops=("update",), columns=("name",))
    assert not passes(update, one, ops=("insert",), columns=("name",))
    assert not passes(update, one, ops=("update",), columns=("email",))


def test_s9_a_row_that_leaves_the_key_is_told():
    moved = change("update", (b"1", b"Ada", None), (b"2", b"Ada", None))
    assert passes(moved, KeyFilter(exact=("1",)))
    assert passes(moved, KeyFilter(exact=("2",)))
    assert not passes(moved, KeyFilter(exact=("3",)))


def test_s10_bounds_are_inside():
    for key, expected in ((b"1", False), (b"2", True), (b"3", True), (b"10", False)):
        assert passes(change(after=(key, None, None)), KeyFilter(lower="2", upper="3")) == expected
    assert passes(change(after=(b"10", None, None)), KeyFilter(lower="9"))
    assert passes(change(after=(b"-5", None, None)), KeyFilter(upper="-5"))


def column(family, **more):
    return KeyColumn(name="k", family=family, type_name="x", **more)


@pytest.mark.parametrize(
    ("family", "ordered"),
    [
        (Family.SIGNED, [b"-10", b"-9", b"0", b"5", b"12"]),
        (Family.DECIMAL, [b"-Infinity", b"-2.5", b"-0.1", b"0", b"1.50", b"12", b"Infinity", b"NaN"]),
        (Family.FLOAT, [b"-Infinity", b"-1e+300", b"-0.5", b"1e-05", b"0.25", b"Infinity", b"NaN"]),
        (Family.DATE, [b"-infinity", b"0044-03-15 BC", b"0001-01-01", b"2026-01-18", b"12026-01-01", b"infinity"]),
        (
            Family.MOMENT_ZONED,
            [
                b"0100-01-01 00:00:00+00 BC",
                b"2026-01-18 12:00:00+00",
                b"2026-01-18 12:00:00.4+00",
                b"2026-01-18 12:00:00.45+00",
            ],
        ),
        (Family.UUID, [b"00000000-0000-0000-0000-000000000001", b"a0000000-0000-0000-0000-000000000000"]),
        (Family.BYTES, [b"\\x", b"\\x00", b"\\x0001", b"\\xff"]),
    ],
    ids=str,
)
def test_keys_are_ordered_as_postgresql_orders_them(family, ordered):
    """S10."""
    order = order_of(column(family))
    backwards = ordered[::-1]
    assert sorted(backwards, key=order) == ordered


def test_equal_keys_may_look_different_and_texts_need_their_collation():
    """S9, S10: what cannot be told from text is refused rather than guessed."""
    same = equality_of(column(Family.DECIMAL))
    assert same(b"12.34") == same(b"12.3400")
    assert equality_of(column(Family.FLOAT))(b"-0") == equality_of(column(Family.FLOAT))(b"0")
    padded = equality_of(column(Family.PADDED))
    assert padded(b"ab  ") == padded(b"ab")
    assert order_of(column(Family.TEXT)) is None
    assert order_of(column(Family.TEXT, is_ordered_by_bytes=True)) is not None
    assert equality_of(column(Family.TEXT, is_equal_by_bytes=False)) is None
    assert equality_of(column(Family.OTHER)) is None


def test_s16_an_event_is_the_document_s():
    """S15: images only where they were asked for."""
    example = vector("sk.poll.plain")["event"]
    relation = Relation(1, "public", "users", "d", (Column("id", 23, -1, True), Column("email", 25, -1, False)))
    made = RowChanged(
        seq=124, commit_lsn=1, ordinal=0, xid=1, commit_time_us=1_710_000_000_000_000, relation=relation,
        operation="update", before=None, after=(b"1", b"ada@example.test"),
    )  # fmt: skip
    columns = Columns.of(relation, {})
    assert event_of(made, columns, ["id"], "mydb", Look(True, False, True, ())) == example
    bare = event_of(made, columns, ["id"], "mydb", Look(True, False, False, ()))
    assert bare == {name: value for name, value in example.items() if name != "after"}


def test_s33_a_frame_is_the_document_s():
    """S32: the same event by SSE."""
    example = vector("sk.ws.frame")["obj"]
    data = orjson.dumps(example["data"])
    assert orjson.loads(ws_frame(example["id"], example["event"], data)) == example
    assert sse_event(124, "insert", data) == b"id: 124\nevent: insert\ndata: " + data + b"\n\n"
    assert sse_control("backpressure", b"{}") == b"event: backpressure\ndata: {}\n\n"


def test_columns_that_the_log_does_not_carry_are_not_in_an_image():
    shown = COLUMNS.image((b"1", ABSENT, None), Look(True, True, True, ()))
    assert shown == {"id": 1, "email": None}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"ops": ["merge"]}, "unknown cdc op"),
        ({"ops": []}, "ops must be"),
        ({"ops": "insert"}, "ops must be"),
        ({"ops": [1]}, "unknown cdc op"),
        ({"format": "xml"}, "unknown cdc format"),
        ({"columns": []}, "columns must be"),
        ({"columns": [1]}, "columns must be"),
        ({"pk": 1}, "pk must be"),
        ({"pk_range": {}}, "cdc pk_range requires at least one bound"),
        ({"pk_range": 1}, "pk_range must be"),
        ({"include": []}, "include must be"),
        ({"include": {"before": 1}}, "include.before must be"),
    ],
    ids=str,
)
def test_wishes_that_mean_nothing_are_refused(params, words):
    """S8, S10, S14."""
    with pytest.raises(RpcRefused, match=words) as refused:
        wishes_of(params)
    assert refused.value.code == "invalid_request"


def test_s8_ops_in_any_case():
    """S4."""
    assert wishes_of({"ops": ["DELETE", "Insert", "insert"]}).ops == ("insert", "delete")
    assert wishes_of({}).ops == ("insert", "update", "delete")


literals = st.fixed_dictionaries({"t": st.just("i64"), "v": st.integers(-(2**63), 2**63 - 1)})


@given(
    st.builds(
        Wishes,
        ops=st.lists(st.sampled_from(["insert", "update", "delete"]), min_size=1, unique=True).map(tuple),
        columns=st.lists(st.text(min_size=1), max_size=3).map(tuple),
        pk=st.none() | st.lists(literals, min_size=1, max_size=3).map(tuple),
        lower_bound=st.none() | literals,
        before=st.booleans(),
        after=st.booleans(),
        changed_keys=st.booleans(),
        format=st.sampled_from(["objects_json", "plain_json"]),
    ),
    st.booleans(),
)
def test_s42_a_subscription_survives_its_record(wishes, is_query):
    wishes = Wishes(
        **{**{f: getattr(wishes, f) for f in wishes.__struct_fields__}, "has_range": wishes.lower_bound is not None}
    )
    made = Subscription(
        sub_id="sub_0123456789abcdef",
        owner=Owner(name="shop", database_role=None, service_role="service"),
        start=123,
        history=4,
        wishes=wishes,
        table=None if is_query else (16400, "public", "users"),
        query=("q_1", ({"t": "i64", "v": 1},)) if is_query else None,
    )
    assert from_record(to_record(made)) == made
