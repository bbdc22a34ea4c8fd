"""What a plan says of a template, beside its SQL: planned out of PostgreSQL's own tree of it."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import Parameter
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Column, Described, PgType, Table
from services.recompute.core.plan import Narrowing, Plan, Read, Strategy
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.fixtures.postgres import PostgresServer
from tests.integration.recompute.planning.bench import SETTINGS
from tests.oracle.local import without_obstacles

SCHEMA = """
CREATE TABLE users (id int4 PRIMARY KEY, name text COLLATE "C", team int4, score float8, doc jsonb);
CREATE TABLE posts (id int4 PRIMARY KEY, author int4, body text COLLATE "C");
CREATE TABLE codes (code varchar(8) COLLATE "C" PRIMARY KEY, word text COLLATE "C");
CREATE TABLE log (at int8, line text COLLATE "C");
CREATE MATERIALIZED VIEW hidden AS SELECT 1 AS x;
CREATE TABLE worn (id int4 PRIMARY KEY, gone int4, kept text COLLATE "C", lost int4, last int4);
ALTER TABLE worn DROP COLUMN gone, DROP COLUMN lost;
CREATE DOMAIN score AS numeric(6, 2);
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE typed (id int4 PRIMARY KEY, mark score, felt mood);
CREATE VIEW names AS SELECT users.id, users.name AS called FROM users WHERE users.team = 1;
"""
INT4, INT8 = PgType(23, "int4"), PgType(20, "int8")
Planned = Callable[..., Plan]


@pytest.fixture(scope="module")
def describe(postgres_server: PostgresServer) -> Iterator[Callable[..., tuple[Query, Described]]]:
    name = f"facts_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA.encode())
    with CatalogReader(Postgres(dsn=dsn, superusers_subscribe=True)) as reader:

        def one(sql: str, *types: int, filter: str = "") -> tuple[Query, Described]:
            query = Query(
                sql=sql,
                template_sql=sql,
                parameters=[Parameter(type_oid=oid) for oid in types],
                filter=filter,
                role="postgres",
                search_path=["public"],
                text_settings=SETTINGS,
            )
            return query, without_obstacles(reader.describe(query))

        yield one
    postgres_server.drop_database(name)


@pytest.fixture
def planned(describe: Callable[..., tuple[Query, Described]]) -> Planned:
    def one(sql: str, *types: int, filter: str = "", **more: object) -> Plan:
        query, described = describe(sql, *types, filter=filter)
        return plan(query.template_sql, filter, replace(described, **more), query.text_settings)

    return one


@pytest.fixture(scope="module")
def oid(describe: Callable[..., tuple[Query, Described]]) -> Callable[[str], int]:
    return lambda name: describe(f"SELECT 1 FROM {name}")[1].relations["public", name].oid


def reads(found: Plan, *wanted: tuple[int, set[int]]) -> bool:
    return found.reads == tuple(Read(table, frozenset(columns)) for table, columns in wanted)


def test_a_filter_and_a_projection_of_one_table_are_row_local(planned: Planned, oid) -> None:
    found = planned("SELECT id, name FROM users WHERE team = 1")
    assert (found.strategy, found.key_positions) == (Strategy.ROW_LOCAL, (0,))
    assert reads(found, (oid("users"), {0, 1, 2}))


def test_the_key_is_read_though_nothing_of_it_is_shown(planned: Planned, oid) -> None:
    assert reads(planned("SELECT name FROM users"), (oid("users"), {0, 1}))


def test_a_view_over_one_table_is_row_local_and_its_columns_are_those_it_uses(planned: Planned, oid) -> None:
    found = planned("SELECT called FROM names")
    assert found.strategy is Strategy.ROW_LOCAL
    assert reads(found, (oid("users"), {0, 1, 2}))


def test_columns_that_a_subquery_shows_and_nobody_uses_are_not_read(planned: Planned, oid) -> None:
    found = planned("SELECT count(*) FROM (SELECT * FROM users) AS u WHERE u.team = 1")
    assert reads(found, (oid("users"), {2}))


def test_a_table_may_be_read_without_any_of_its_columns(planned: Planned, oid) -> None:
    assert reads(planned("SELECT count(*) FROM log"), (oid("log"), set()))


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT u.name, p.id FROM posts p JOIN users u ON u.id = p.author", (1,)),
        ("SELECT u.name, p.id FROM posts p LEFT JOIN users u ON u.id = p.author", (1,)),
        ("SELECT u.name, p.id FROM posts p RIGHT JOIN users u ON u.id = p.author", ()),
        ("SELECT u.name, p.id FROM posts p, users u", ()),
        ("SELECT name, count(*)::int4 FROM users GROUP BY name, id", ()),
        ("SELECT id, count(*) FROM users GROUP BY id", (0,)),
        ("SELECT p.id, c.word FROM posts p JOIN codes c ON c.code = p.body", (0,)),
        ("SELECT c.word, d.code FROM codes c JOIN codes d ON c.code = d.code", (1,)),
        ("SELECT team, count(*) FROM users GROUP BY team", ()),
        ("SELECT team, count(*) FROM users WHERE team IN (SELECT id FROM posts) GROUP BY team", (0,)),
    ],
)
def test_a_key_is_certain_only_where_no_row_can_repeat_or_lack_it(planned: Planned, sql: str, key) -> None:
    assert planned(sql).key_positions == key


@pytest.mark.parametrize(
    ("sql", "stable"),
    [
        ("SELECT id FROM users ORDER BY name, id LIMIT 3", True),
        ("SELECT id FROM users ORDER BY name LIMIT 3", False),
        ("SELECT id FROM users LIMIT 3", False),
        ("SELECT sum(score) FROM users", False),
        ("SELECT row_number() OVER (ORDER BY team) FROM users", False),
        ("SELECT rank() OVER (ORDER BY team) FROM users", True),
    ],
)
def test_an_answer_is_stable_only_if_the_rows_decide_it(planned: Planned, sql: str, stable: bool) -> None:
    assert planned(sql).stable is stable


def test_parameters_are_joined_where_the_top_select_uses_them(planned: Planned) -> None:
    found = planned("SELECT count(*) FROM users WHERE team = $1", 23)
    assert found.full is not None and not found.full.by_tuple and "⟦params⟧" in found.full.sql


def test_parameters_in_a_subquery_are_literals(planned: Planned) -> None:
    found = planned("SELECT name FROM users WHERE id IN (SELECT author FROM posts WHERE id = $1)", 23)
    assert found.full is not None and found.full.by_tuple and "⟦p1⟧" in found.full.sql and "⟦q⟧" in found.full.sql


def test_a_filter_of_a_row_local_query_keeps_it_row_local(planned: Planned) -> None:
    found = planned("SELECT name AS x FROM users", filter="x = 'a'")
    assert found.row_local is not None and "c1 = 'a'" in found.row_local.predicate


def test_a_filter_leaves_the_order_of_the_result(planned: Planned) -> None:
    assert planned("SELECT id, name FROM users ORDER BY name", filter="id > 3").ordered
    assert planned("SELECT doc -> 'a' AS x, id FROM users ORDER BY id", filter="id > 3").ordered


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("team = $1", Narrowing("=", "c2", "⟦p1⟧")),
        ("$1 < team AND name = 'a'", Narrowing(">", "c2", "⟦p1⟧")),
        ("team > $1 AND (id = $1)", Narrowing("=", "c0", "⟦p1⟧")),
        ("team BETWEEN $1 AND 7", Narrowing(">=", "c2", "⟦p1⟧")),
        ("team + 1 <= $1", Narrowing("<=", "CAST((CAST(c2 AS INT) + CAST(CAST('1' AS INT) AS INT)) AS INT)", "⟦p1⟧")),
        # Nothing that must hold wherever the condition holds.
        ("team = $1 OR id = 1", None),
        ("NOT team = $1", None),
        ("team <> $1", None),
        ("coalesce(team = $1, true)", None),
        ("team = id + $1", None),
        ("team IN ($1, 7)", None),
        # Minus zero and plus zero are equal.
        ("score = $1", None),
    ],
)
def test_tuples_are_looked_up_by_a_comparison_that_must_hold(planned: Planned, where: str, expected) -> None:
    found = planned(f"SELECT id FROM users WHERE {where}", 23).row_local
    assert found is not None and found.narrowing == expected


def test_what_postgres_calls_by_another_type_is_left_to_it(planned: Planned) -> None:
    found = planned("SELECT count(*) FROM users", columns=(Column("count", INT4),))
    assert (found.strategy, found.why_not["full"]) == (
        Strategy.SOURCE,
        "column count: PostgreSQL says int4(-1), we say int8(-1)",
    )


def test_a_relation_that_the_log_does_not_show_is_asked_for_on_a_timer(planned: Planned) -> None:
    found = planned("SELECT x FROM hidden")
    assert (found.strategy, found.on_timer) == (Strategy.SOURCE, True)
    assert "materialized view" in found.why_not["full"]


def test_a_source_plan_depends_on_every_column_of_its_tables(planned: Planned, oid) -> None:
    found = planned("SELECT doc -> 'a' FROM users")
    assert (found.strategy, found.on_timer) == (Strategy.SOURCE, False)
    assert reads(found, (oid("users"), set(range(5))))


@pytest.mark.parametrize("why", [{"obstacle": "a policy"}, {"strangers": frozenset({"lower"})}, {"unsteady": "random"}])
def test_what_the_catalog_objects_to_is_left_to_postgres(planned: Planned, why: dict[str, object]) -> None:
    assert planned("SELECT id FROM users", **why).strategy is Strategy.SOURCE


def test_a_tree_that_is_not_understood_is_left_to_postgres(planned: Planned) -> None:
    found = planned("SELECT id FROM users ORDER BY 1", rewritten="({QUERY :commandType")
    assert (found.strategy, found.ordered, found.stable) == (Strategy.SOURCE, True, False)


def test_a_table_that_came_since_the_tree_is_left_to_postgres(planned: Planned) -> None:
    found = planned("SELECT id FROM users", relations={})
    assert found.strategy is Strategy.SOURCE and "relation" in found.why_not["full"]


def test_a_column_of_another_type_than_the_tree_says_is_left_to_postgres(planned: Planned, describe) -> None:
    _, described = describe("SELECT id FROM users")
    table = described.relations["public", "users"]
    assert isinstance(table, Table)
    other = replace(table, columns=(replace(table.columns[0], type=INT8), *table.columns[1:]))
    found = planned("SELECT id FROM users", relations={("public", "users"): other})
    assert found.strategy is Strategy.SOURCE


def test_the_clock_is_told(planned: Planned) -> None:
    assert planned("SELECT now() AS t, id FROM users").reads_clock


@pytest.mark.parametrize(
    "moment",
    [
        "'now'::timestamp",
        "timestamp 'today'",
        "date 'Tomorrow'",
        "E'yester\\x64ay'::date",
        "U&'\\006eow'::timestamptz",
        "'to'\n'day'::date",
        "$$today$$::date",
        "'today 12:00'::timestamp",
    ],
)
def test_a_moment_that_postgres_reads_as_a_constant_is_asked_for_again(planned: Planned, moment: str) -> None:
    found = planned(f"SELECT id, {moment} FROM users")
    assert (found.strategy, found.reads_clock) == (Strategy.SOURCE, True)


def test_a_row_of_one_table_is_known_by_its_key_though_postgres_computes_it(planned: Planned) -> None:
    assert planned("SELECT doc -> 'a', id FROM users WHERE doc ? 'a'").key_positions == (1,)
    assert planned("SELECT jsonb_array_elements(doc), id FROM users").key_positions == ()
    assert planned("SELECT jsonb_agg(doc), 1 FROM users").key_positions == ()


def test_a_query_too_deep_for_us_is_left_to_postgres(planned: Planned) -> None:
    deep = "SELECT id FROM users WHERE id = 1" + " AND NOT (id = 1" * 150 + ")" * 150
    assert planned(deep).strategy is Strategy.SOURCE


@pytest.mark.parametrize(
    "spelled",
    [
        'SELECT "ID" FROM (SELECT id AS "ID", name AS id FROM users) s',
        'SELECT "Ä" FROM (SELECT id AS "Ä", team AS "ä" FROM users) s',
        "SELECT users.id FROM users users JOIN posts USING (id)",
        "SELECT s.* FROM (SELECT id FROM users) s (ä)",
        "WITH users AS (SELECT id, body FROM posts) SELECT id FROM users",
        "SELECT (u).id FROM (SELECT id, team FROM users) u",
        "SELECT u.id FROM (users u JOIN posts p ON u.id = p.id) LEFT JOIN log ON true",
        "SELECT j.id FROM (users JOIN posts USING (id)) AS j",
    ],
)
def test_names_mean_what_postgres_says_they_mean(planned: Planned, spelled: str) -> None:
    assert planned(spelled).strategy is not Strategy.SOURCE, planned(spelled).why_not


def test_columns_are_found_by_their_numbers_though_others_were_dropped(planned: Planned) -> None:
    found = planned("SELECT last, kept FROM worn WHERE last > 3").row_local
    assert found is not None and found.outputs == ("CAST(c2 AS STRING)", "c1")
    assert found.predicate == "((c2 > CAST('3' AS INT)))"


def test_a_domain_is_the_type_below_it_and_an_enum_s_constant_its_label(planned: Planned) -> None:
    found = planned("SELECT mark, mark * 2, CASE felt WHEN 'glad' THEN 1 ELSE 0 END FROM typed").row_local
    assert found is not None and found.outputs[0] == "CAST(c1 AS STRING)" and "'glad'" in found.outputs[2]
