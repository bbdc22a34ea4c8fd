"""What the catalog says of a query as a whole: types, meaning, and what is not a query to subscribe to."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation
from services.sqlguard.refusal import Refused


def parameter_names(described) -> list[str]:
    return [type_.name for type_ in described.parameter_types]


def result(described) -> list[tuple[str, str]]:
    return [(column.name, column.type.name) for column in described.columns]


def test_types_of_parameters_are_those_declared_or_inferred(describe):
    sql = "SELECT id + $1, $2 FROM item WHERE name = $3 AND id = $4"
    assert parameter_names(describe(sql, types=(20, 0, 705, 0))) == ["int8", "text", "text", "int4"]


def test_result_columns_are_what_the_server_describes(describe):
    found = describe("SELECT id, cost, cost * 2 AS double, feeling, 'x', count(*) OVER () FROM item")
    assert result(found) == [
        ("id", "int4"), ("cost", "numeric"), ("double", "numeric"), ("feeling", "public.mood"), ("?column?", "text"),
        ("count", "int8"),
    ]  # fmt: skip
    assert [column.type.modifier for column in found.columns[:3]] == [-1, 655366, -1]


def test_a_filter_stands_around_the_query(describe):
    found = describe("SELECT id, name AS label FROM item", filter="label LIKE 'a%' AND id > $1")
    assert (result(found), parameter_names(found)) == ([("id", "int4"), ("label", "text")], ["int4"])
    with pytest.raises(Refused, match='column "name" does not exist'):
        describe("SELECT id, name AS label FROM item", filter="name = 'x'")


def test_the_database_s_collation_is_told(describe):
    found = describe("SELECT $1 || name FROM item")
    assert (found.collation, found.parameter_types[0].collation) == (Collation.BYTES, Collation.BYTES)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT now()", (True, "", "")),
        ("SELECT 1 FROM item WHERE at > CURRENT_DATE", (True, "", "")),
        ("SELECT age(at) FROM item", (True, "", "")),
        ("SELECT 1 FROM item WHERE at > 'today'", (True, "", "")),
        ("SELECT 'buy now', 'today''s'", (False, "", "")),
        ("SELECT random()", (False, "random()", "")),
        ("SELECT pg_database_size('postgres')", (False, "", "pg_database_size()")),
        ("SELECT stock()", (False, "", "stock()")),
        ("SELECT to_char(at, 'YYYY'), date_trunc('day', at), at::date, name || at FROM item", (False, "", "")),
        ("SELECT lower(name), discount(cost) FROM item", (False, "", "")),
        ("SELECT * FROM generate_series(1, 3)", (False, "", "")),
    ],
)
def test_what_an_answer_depends_on_besides_rows(describe, sql, expected):
    found = describe(sql)
    assert (found.reads_clock, found.unsteady, found.unlogged) == expected


@pytest.mark.parametrize(
    ("sql", "search_path", "strangers"),
    [
        ("SELECT lower(name) || id FROM item WHERE id = 1", ["public"], set()),
        ("SELECT discount(cost) FROM item", ["public"], {"discount"}),
        ("SELECT length(name) FROM item", ["public"], set()),
        ("SELECT length(name) FROM item", ["public", "pg_catalog"], {"length"}),
        ("SELECT 1 FROM item WHERE id = name", ["public"], {"=", "same"}),
    ],
)
def test_strangers_are_what_is_used_and_not_postgresql_s_own(describe, sql, search_path, strangers):
    assert describe(sql, search_path=search_path).strangers == strangers


def test_everything_that_the_query_names_is_what_it_depends_on(describe, admin):
    oids = {
        row[0]
        for row in admin.execute(
            "SELECT oid FROM pg_class WHERE relname IN ('cheap_lines', 'cheap', 'line') "
            "UNION ALL SELECT 'discount(numeric)'::regprocedure UNION ALL SELECT 'clerk'::regrole"
        )
    }
    assert oids <= describe("SELECT discount(amount) FROM cheap_lines").depends_on


def test_a_constant_that_cannot_be_computed_is_left_to_the_run(describe):
    found = describe("SELECT 1 / 0 FROM item")
    assert (result(found), found.obstacle) == (
        [("?column?", "int4")],
        "PostgreSQL does not plan it: division by zero",
    )


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO item (id, name) VALUES (1, 'x')",
        "WITH gone AS (DELETE FROM item RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copy FROM item",
        "SELECT * FROM item FOR UPDATE",
        "SELECT * FROM (SELECT * FROM item FOR SHARE) locked",
        "EXPLAIN SELECT 1",
        "SHOW search_path",
        "CREATE TABLE x (i int)",
    ],
)
def test_only_select_can_be_subscribed_to(describe, sql):
    with pytest.raises(Refused, match="Only SELECT queries can be subscribed to"):
        describe(sql, role="postgres")


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT nextval('counter')", "nextval"),
        ("SELECT setval('counter', 7)", "setval"),
        ("SELECT pg_sleep(1)", "pg_sleep"),
        ("SELECT set_config('role', 'postgres', false)", "set_config"),
        ("SELECT pg_notify('x', 'y')", "pg_notify"),
        ("SELECT pg_advisory_lock(1)", "pg_advisory_lock"),
        ("SELECT txid_current()", "txid_current"),
        ("SELECT lo_create(0)", "lo_create"),
        ("SELECT pg_terminate_backend(1)", "pg_terminate_backend"),
        ("SELECT query_to_xml('SELECT 1', true, true, '')", "query_to_xml"),
        ("SELECT 1 FROM item WHERE id = (SELECT setseed(0.5) IS NULL)::int", "setseed"),
        ("SELECT session_user", "session_user"),
        ("SELECT pg_backend_pid()", "pg_backend_pid"),
    ],
)
def test_functions_with_effects_and_of_the_session_are_refused_by_name(describe, sql, name):
    with pytest.raises(Refused, match=rf"function {name}\(\) .*cannot be subscribed to"):
        describe(sql, role="postgres")


def test_syntax_errors_and_missing_things_are_in_postgresql_s_words(describe):
    for sql, sqlstate, words in (
        ("SELECT FROM WHERE", "42601", 'syntax error at or near "WHERE"'),
        ("SELECT * FROM nowhere", "42P01", 'relation "nowhere" does not exist'),
        ("SELECT nothing FROM item", "42703", 'column "nothing" does not exist'),
        ("SELECT 1\0 + 1", "22021", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("SELECT 1; SELECT 2", "42601", "cannot insert multiple commands into a prepared statement"),
    ):
        with pytest.raises(Refused) as refusal:
            describe(sql)
        assert (refusal.value.sqlstate, refusal.value.message) == (sqlstate, words)


def test_settings_of_the_subscriber_are_accepted_as_they_come(describe):
    settings = TextSettings(time_zone="Asia/Tokyo", date_style="SQL, DMY", extra_float_digits=3)
    assert result(describe("SELECT at FROM item", text_settings=settings)) == [("at", "timestamptz")]
