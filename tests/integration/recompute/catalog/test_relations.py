"""What the catalog says of the relations that a query reads."""

import psycopg
import pytest

from proto.tidewire.v1.commands_pb2 import ResolvedName
from services.recompute.core.catalog import Collation, Opaque, Table, Union, View
from services.sqlguard.refusal import Refused


def names(relation) -> list[str]:
    return [column.name for column in relation.columns]


def types(relation) -> list[str]:
    return [column.type.name for column in relation.columns]


def test_a_table_has_its_columns_types_and_key(describe):
    item = describe("SELECT * FROM item").relations["public", "item"]
    assert isinstance(item, Table)
    assert names(item) == ["id", "name", "cost", "tag", "feeling", "at"]
    # A domain counts as the type below it.
    assert types(item) == ["int4", "text", "numeric", "varchar", "public.mood", "timestamptz"]
    assert [column.type.modifier for column in item.columns[2:4]] == [(10 << 16 | 2) + 4, 24]
    assert [column.type.collation for column in item.columns[1:5]] == [
        Collation.BYTES, Collation.NONE, Collation.BYTES, Collation.NONE,
    ]  # fmt: skip
    assert (item.key, item.obstacle, item.row_filter, item.columns[4].type.kind) == ((0,), "", "", "e")


def test_a_key_has_the_order_of_its_index(describe):
    line = describe('SELECT "Order" FROM line').relations["public", "line"]
    assert line.key == (1, 0)


def test_a_table_without_a_key_has_none(describe):
    assert describe("SELECT 1 FROM loose").relations["public", "loose"].key == ()


def test_stored_generated_columns_are_in_the_log_from_18_on(describe, admin):
    line = describe("SELECT twice FROM line").relations["public", "line"]
    assert line.columns[3].generated == "s"
    assert (line.obstacle == "") == (admin.info.server_version >= 180000)


def test_names_are_found_as_they_are_written(describe):
    found = describe('SELECT 1 FROM ITEM, archive.item, "Quoted Table" q, public."item" p').relations
    assert found.keys() == {("public", "item"), ("archive", "item"), ("public", "Quoted Table")}
    assert names(found["archive", "item"]) == ["id", "old"]
    assert names(found["public", "Quoted Table"]) == ['Weird "Name']


def test_the_search_path_decides(describe):
    found = describe("SELECT * FROM item", search_path=["archive", "public"]).relations
    assert found.keys() == {("archive", "item")}


def test_a_name_of_the_query_s_own_is_no_relation(describe):
    found = describe("WITH item AS (SELECT 1 AS x) SELECT * FROM item")
    assert found.relations == {}


def test_partitions_and_children_are_members(describe):
    event = describe("SELECT * FROM event").relations["public", "event"]
    assert isinstance(event, Union)
    assert (names(event), [(one.name, names(one)) for one in event.members]) == (
        ["at", "id", "what"],
        [("event_2024", ["at", "id", "what"]), ("event_later", ["what", "id", "at"])],
    )
    assert [one.key for one in event.members] == [(0, 1), (2, 1)]
    animal = describe("SELECT * FROM animal").relations["public", "animal"]
    assert [(one.name, names(one)) for one in animal.members] == [
        ("animal", ["id", "name"]),
        ("dog", ["id", "name", "bark"]),
    ]


def test_views_come_with_what_they_read(describe):
    found = describe("SELECT * FROM cheap_lines").relations
    assert set(found) == {("public", name) for name in ("cheap_lines", "cheap", "item", "line")}
    view = found["public", "cheap_lines"]
    assert isinstance(view, View)
    assert types(view) == ["text", "int4"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM stale", "materialized view public.stale"),
        ("SELECT * FROM scratch", "unlogged table public.scratch"),
        ("SELECT last_value FROM counter", "sequence public.counter"),
        ("SELECT relname FROM pg_class", "catalog pg_catalog.pg_class"),
        ("SELECT * FROM tables", "catalog pg_catalog.pg_class"),
        ("SELECT table_name FROM information_schema.tables", "catalog information_schema.tables"),
    ],
)
def test_what_the_log_does_not_show_is_opaque(describe, sql, reason):
    found = describe(sql, role="postgres").relations
    assert reason in {one.reason for one in found.values() if isinstance(one, Opaque)}


def test_a_table_that_is_not_published_has_an_obstacle(describe, admin: psycopg.Connection):
    admin.execute("CREATE TABLE IF NOT EXISTS unseen (id int); GRANT SELECT ON unseen TO clerk")
    assert "not in the log" in describe("SELECT * FROM unseen").relations["public", "unseen"].obstacle


def test_a_name_that_came_to_mean_another_table_is_missing(describe):
    with pytest.raises(Refused, match='relation "item" does not exist') as refusal:
        describe("SELECT * FROM item", names=[ResolvedName(written_name="item", oid=1, schema="public", name="item")])
    assert refusal.value.sqlstate == "42P01"
