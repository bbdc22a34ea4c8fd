"""Payloads and keys of topic messages, from images of rows."""

import json

from proto.pgoutput.messages import ABSENT, Column, Relation
from services.recompute.core.topics.definition import (
    Definition,
    Route,
    RouteIndex,
    group_of,
    read_definition,
    read_mark,
    write_definition,
)
from services.recompute.core.topics.payload import Change, Rendering
from services.recompute.core.topics.position import WHOLE, Position
from services.recompute.core.topics.routing import Place, Routing
from services.recompute.core.topics.source_table import SourceTable, SourceTables

COLUMNS = (
    Column("id", 23, -1, True),
    Column("region", 25, -1, True),
    Column("n", 1700, -1, False),
    Column("j", 3802, -1, False),
    Column("b", 16, -1, False),
    Column("d", 9999, -1, False),
)
RELATION = Relation(5, "app", "t", "f", COLUMNS)
TABLE = SourceTable(
    oid=5, schema="app", name="t", owner="olga", key=("region", "id"), leaves=(5,), readers=frozenset({"ann"})
)
ROW = (b"1", b'e"u', b"1.50", b'{"k": 1}', b"t", b"7")
RENDERING = Rendering(TABLE, RELATION, {9999: 20})


def change(operation: str, before=None, after=None) -> Change:
    return Change(relation=RELATION, operation=operation, before=before, after=after)


def shown(mode: str, one: Change) -> dict:
    return json.loads(RENDERING.payload(mode, one))


def test_k5_key_full_and_diff_payloads():
    """Vector k.payload."""
    full = {"id": 1, "region": 'e"u', "n": 1.5, "j": {"k": 1}, "b": True, "d": 7, "_table": "app.t"}
    inserted = change("insert", after=ROW)
    assert shown("Key", inserted) == {"region": 'e"u', "id": 1}
    assert shown("Full", inserted) == full
    deleted = change("delete", before=ROW)
    assert shown("Key", deleted) == {"region": 'e"u', "id": 1, "_deleted": True}
    assert shown("Full", deleted) == shown("Diff", deleted) == {**full, "_deleted": True}


def test_kr3_a_diff_has_what_changed_with_old_and_new():
    after = (b"1", b'e"u', b"NaN", None, b"t", b"7")
    updated = change("update", before=ROW, after=after)
    assert shown("Diff", updated) == {
        "region": 'e"u',
        "id": 1,
        "_table": "app.t",
        "_changed": {"n": {"old": 1.5, "new": "NaN"}, "j": {"old": {"k": 1}, "new": None}},
    }
    assert shown("Diff", change("update", before=ROW, after=ROW))["_changed"] == {}


def test_digits_are_postgresqls_own():
    digits = (b"1", b"x", b"123456789012345678901234567890.10", b"null", b"f", b"9223372036854775807")
    assert b'"n":123456789012345678901234567890.10,"j":null,"b":false,"d":9223372036854775807' in RENDERING.payload(
        "Full", change("insert", after=digits)
    )


def test_a_value_that_the_log_does_not_have_is_named_and_not_made_up():
    assert shown("Full", change("update", after=(b"1", b"x", ABSENT, ABSENT, None, None))) == {
        "id": 1,
        "region": "x",
        "b": None,
        "d": None,
        "_absent": ["n", "j"],
        "_table": "app.t",
    }


def test_a_key_of_several_columns_is_an_object_sorted_by_name_and_of_one_its_text():
    """Vector k.key."""
    assert RENDERING.key(change("insert", after=ROW)) == '{"id":1,"region":"e\\"u"}'
    single = SourceTable(oid=5, schema="app", name="t", owner="o", key=("region",))
    assert Rendering(single, RELATION, {}).key(change("insert", after=ROW)) == 'e"u'
    keyless = SourceTable(oid=5, schema="app", name="t", owner="o")
    assert json.loads(Rendering(keyless, RELATION, {}).key(change("insert", after=ROW)))["d"] == "7"


def route(number: int, op: str = "Insert", role: str = "ann", **more: object) -> Route:
    facts = {"source_schema": "app", "source_table": "t", "payload_mode": "Key", "table_oid": 5}
    return Route(route=number, op=op, role=role, **{**facts, **more})


def test_k3_routes_are_found_by_table_and_operation_and_only_of_makers_who_may_read():
    topic = Definition(topic_id="a", name="a", routes=(route(0), route(1, role="eve"), route(2, "Delete")))
    routing = Routing(RouteIndex([topic]), SourceTables({5: TABLE}, {}))
    place = Place(history=1, seq=1, lsn=1, ordinal=0, committed_us=0)
    found = routing.candidates(change("insert", after=ROW), place)
    assert [one.route.route for one in found] == [0]
    assert routing.reads(5) and not routing.reads(6)


def test_kr1_a_row_keeps_its_partition_and_an_actor_is_told_as_claimed():
    """Vector k.partition.stable."""
    topic = Definition(topic_id="a", name="a", partitions=8, routes=(route(0), route(1, "Delete")))
    routing = Routing(RouteIndex([topic]), SourceTables({5: TABLE}, {}))
    place = Place(history=1, seq=9, lsn=7, ordinal=3, committed_us=5)
    (inserted,) = routing.candidates(change("insert", after=ROW), place)
    (deleted,) = routing.candidates(change("delete", before=ROW), place)
    first, last = routing.message(inserted), routing.message(deleted.named("ann"))
    assert first.partition == last.partition
    assert (first.user, first.user_is_claimed, last.user, last.user_is_claimed) == ("olga", False, "ann", True)


def test_kr2_rows_with_one_value_of_the_partition_by_column_share_a_partition():
    topic = Definition(topic_id="a", name="a", partitions=64, routes=(route(0, partition_key="n"), route(1, "Update")))
    routing = Routing(RouteIndex([topic]), SourceTables({5: TABLE}, {}))
    place = Place(history=1, seq=9, lsn=7, ordinal=3, committed_us=5)

    def partition(operation: str, number: int, value: bytes | None) -> int:
        row = (str(number).encode(), b"eu", value, None, b"t", b"7")
        before = row if operation == "update" else None
        (one,) = routing.candidates(change(operation, before=before, after=row), place)
        return routing.message(one).partition

    assert len({partition("insert", number, b"1.5") for number in range(50)}) == 1
    assert len({partition("insert", number, None) for number in range(50)}) == 1
    assert len({partition("insert", 1, str(value).encode()) for value in range(50)}) > 10
    assert len({partition("update", number, b"1.5") for number in range(50)}) > 10


def test_k26_a_filter_looks_at_the_new_row_and_of_a_delete_at_the_old_one():
    old, new = ROW, (b"1", b"us", b"2", None, b"f", b"8")
    assert change("insert", after=new).row == change("update", before=old, after=new).row == new
    assert change("delete", before=old).row == old


def test_kr4_the_index_is_the_same_after_it_was_stored_and_read_again():
    topics = [
        Definition(topic_id=name, name=name, routes=(route(0), route(1, "Delete", filter_expr="(id > 1)")))
        for name in ("a", "b")
    ]
    kept = RouteIndex([read_definition(write_definition(topic)) for topic in topics])
    held = RouteIndex(topics)
    assert kept.tables == held.tables == {5}
    for operation in ("insert", "update", "delete"):
        assert kept.of(5, operation) == held.of(5, operation)
    assert [(topic.topic_id, one.route) for topic, one in kept.of(5, "insert")] == [("a", 0), ("b", 0)]
    assert [one.filter_expr for _, one in kept.of(5, "delete")] == ["(id > 1)", "(id > 1)"]
    assert kept.of(5, "update") == kept.of(6, "insert") == []


def test_a_mark_of_postgresql_is_read_with_oids_as_text():
    content = b"""{"topic_id": "app.t", "do": "ALTER TOPIC", "definition": {"topic_id": "app.t", "name": "app.t",
      "partitions": 2, "owner": "o", "retention_seconds": null, "cleared_generation": 1, "routes": [{
      "topic_id": "app.t", "route": 0, "table_oid": "16385", "source_schema": "app", "source_table": "t",
      "op": "Insert", "payload_mode": "Key", "filter_expr": null, "partition_key": null, "role": "ann"}]}}"""
    mark = read_mark(content)
    assert mark.definition is not None and mark.definition.routes == (route(0, table_oid=16385),)
    assert read_mark(b'{"topic_id": "x", "do": "DROP TOPIC", "definition": null}').definition is None
    assert {group_of(f"app.t{number}") for number in range(100)} == {0, 1, 2, 3}


def test_a_position_covers_what_stands_before_it_and_older_histories():
    inside = Position(history=2, lsn=100, ordinal=5, first_seq=1)
    assert inside.covers(2, 100, 5) and inside.covers(1, 999, 0) and inside.covers(2, 99, WHOLE)
    assert not inside.covers(2, 100, 6) and not inside.covers(2, 101, 0) and not inside.covers(3, 1, 0)
