"""What a plan says of a template, beside its SQL."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, Column, Described, Opaque, PgType, Table, View
from services.recompute.core.plan import Narrowing, Plan, Read, Strategy
from services.recompute.core.planning import plan

SETTINGS = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)
INT4, INT8, TEXT = PgType(23, "int4"), PgType(20, "int8"), PgType(25, "text", collation=Collation.BYTES)
FLOAT8, JSONB = PgType(701, "float8"), PgType(3802, "jsonb")


def table(oid: int, name: str, *columns: tuple[str, PgType], key: tuple[int, ...] = (0,), **more: str) -> Table:
    held = tuple(Column(column, type, at in key) for at, (column, type) in enumerate(columns))
    return Table(oid=oid, schema="public", name=name, columns=held, key=key, **more)


USERS = table(1, "users", ("id", INT4), ("name", TEXT), ("team", INT4), ("score", FLOAT8), ("doc", JSONB))
POSTS = table(2, "posts", ("id", INT4), ("author", INT4), ("body", TEXT))
LOG = table(3, "log", ("at", INT8), ("line", TEXT), key=())
HIDDEN = Opaque(oid=4, schema="public", name="hidden", columns=(Column("x", INT4),), reason="a materialized view")
NAMES = View(
    oid=5,
    schema="public",
    name="names",
    columns=(Column("id", INT4), Column("called", TEXT)),
    sql="SELECT users.id, users.name AS called FROM public.users WHERE users.team = 1",
)


def planned(sql: str, *columns: PgType, parameters: tuple[PgType, ...] = (), filter: str = "", **more: object) -> Plan:
    relations = {("", relation.name): relation for relation in (USERS, POSTS, LOG, HIDDEN, NAMES)}
    relations[("public", "users")] = USERS
    used = {name: relation for name, relation in relations.items() if name[1] in sql or name[0]}
    described = Described(
        relations=used,
        parameter_types=parameters,
        columns=tuple(Column(f"column_{at}", type) for at, type in enumerate(columns)),
        collation=Collation.BYTES,
        **more,
    )
    return plan(sql, filter, described, SETTINGS)


def test_a_filter_and_a_projection_of_one_table_are_row_local():
    found = planned("SELECT id, name FROM users WHERE team = 1", INT4, TEXT)
    assert (found.strategy, found.key_positions, found.reads) == (
        Strategy.ROW_LOCAL,
        (0,),
        (Read(1, frozenset({0, 1, 2})),),
    )


def test_the_key_is_read_though_nothing_of_it_is_shown():
    assert planned("SELECT name FROM users", TEXT).reads == (Read(1, frozenset({0, 1})),)


def test_a_view_over_one_table_is_row_local_and_its_columns_are_those_it_uses():
    found = planned("SELECT called FROM names", TEXT)
    assert (found.strategy, found.reads) == (Strategy.ROW_LOCAL, (Read(1, frozenset({0, 1, 2})),))


def test_columns_that_a_subquery_shows_and_nobody_uses_are_not_read():
    found = planned("SELECT count(*) FROM (SELECT * FROM users) AS u WHERE u.team = 1", INT8)
    assert found.reads == (Read(1, frozenset({2})),)


def test_a_table_may_be_read_without_any_of_its_columns():
    assert planned("SELECT count(*) FROM log", INT8).reads == (Read(3, frozenset()),)


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT u.name, p.id FROM posts p JOIN users u ON u.id = p.author", (1,)),
        ("SELECT u.name, p.id FROM posts p LEFT JOIN users u ON u.id = p.author", (1,)),
        ("SELECT u.name, p.id FROM posts p RIGHT JOIN users u ON u.id = p.author", ()),
        ("SELECT u.name, p.id FROM posts p, users u", ()),
        ("SELECT name, count(*)::int4 FROM users GROUP BY name, id", ()),
    ],
)
def test_a_key_is_certain_only_where_no_row_can_repeat_or_lack_it(sql, key):
    assert planned(sql, TEXT, INT4).key_positions == key


def test_groups_are_known_by_what_they_are_grouped_by_unless_it_may_be_null():
    assert planned("SELECT id, count(*) FROM users GROUP BY id", INT4, INT8).key_positions == (0,)
    assert planned("SELECT team, count(*) FROM users GROUP BY team", INT4, INT8).key_positions == ()


def test_a_limit_needs_a_total_order_to_have_one_answer():
    assert planned("SELECT id FROM users ORDER BY name, id LIMIT 3", INT4).stable
    assert not planned("SELECT id FROM users ORDER BY name LIMIT 3", INT4).stable
    assert not planned("SELECT id FROM users LIMIT 3", INT4).stable


def test_float_sums_and_numbered_ties_have_no_single_answer():
    assert not planned("SELECT sum(score) FROM users", FLOAT8).stable
    assert not planned("SELECT row_number() OVER (ORDER BY team) FROM users", INT8).stable
    assert planned("SELECT rank() OVER (ORDER BY team) FROM users", INT8).stable


def test_parameters_are_joined_where_the_top_select_uses_them():
    found = planned("SELECT count(*) FROM users WHERE team = $1", INT8, parameters=(INT4,))
    assert found.full is not None and not found.full.by_tuple and "⟦params⟧" in found.full.sql


def test_parameters_in_a_subquery_are_literals():
    sql = "SELECT name FROM users WHERE id IN (SELECT author FROM posts WHERE id = $1)"
    found = planned(sql, TEXT, parameters=(INT4,))
    assert found.full is not None and found.full.by_tuple and "⟦p1⟧" in found.full.sql and "⟦q⟧" in found.full.sql


def test_a_filter_of_a_row_local_query_keeps_it_row_local():
    found = planned("SELECT name AS x FROM users", TEXT, filter="column_0 = 'a'")
    assert found.row_local is not None and "c1 = 'a'" in found.row_local.predicate


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("team = $1", Narrowing("=", "c2", "⟦p1⟧")),
        ("$1 < team AND name = 'a'", Narrowing(">", "c2", "⟦p1⟧")),
        ("team > $1 AND (id = $1)", Narrowing("=", "c0", "⟦p1⟧")),
        ("team BETWEEN $1 AND 7", Narrowing(">=", "c2", "⟦p1⟧")),
        ("team + 1 <= $1", Narrowing("<=", "CAST((CAST(c2 AS INT) + CAST(CAST(1 AS INT) AS INT)) AS INT)", "⟦p1⟧")),
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
def test_tuples_are_looked_up_by_a_comparison_that_must_hold(where, expected):
    found = planned(f"SELECT id FROM users WHERE {where}", INT4, parameters=(INT4,)).row_local
    assert found is not None and found.narrowing == expected


def test_what_postgres_calls_by_another_type_is_left_to_it():
    found = planned("SELECT count(*) FROM users", INT4)
    assert (found.strategy, found.why_not["full"]) == (
        Strategy.SOURCE,
        "column column_0: PostgreSQL says type int4, we say int8",
    )


def test_a_relation_that_the_log_does_not_show_is_asked_for_on_a_timer():
    found = planned("SELECT x FROM hidden", INT4)
    assert (found.strategy, found.on_timer, found.why_not["full"]) == (Strategy.SOURCE, True, "a materialized view")


def test_a_source_plan_depends_on_every_column_of_its_tables():
    found = planned("SELECT doc -> 'a' FROM users", JSONB)
    assert (found.strategy, found.on_timer, found.reads) == (Strategy.SOURCE, False, (Read(1, frozenset(range(5))),))


@pytest.mark.parametrize("why", [{"obstacle": "a policy"}, {"strangers": frozenset({"lower"})}, {"unsteady": "random"}])
def test_what_the_catalog_objects_to_is_left_to_postgres(why):
    assert planned("SELECT id FROM users", INT4, **why).strategy is Strategy.SOURCE


def test_sql_that_we_cannot_read_is_left_to_postgres():
    found = planned("SELECT id FROM users TABLESAMPLE ??? ORDER BY 1", INT4)
    assert (found.strategy, found.ordered, found.stable) == (Strategy.SOURCE, True, False)


def test_the_clock_is_told():
    assert planned("SELECT now() AS t, id FROM users", PgType(1184, "timestamptz"), INT4).reads_clock


def test_a_row_of_one_table_is_known_by_its_key_though_postgres_computes_it():
    assert planned("SELECT doc -> 'a', id FROM users WHERE doc ? 'a'", JSONB, INT4).key_positions == (1,)
    assert planned("SELECT jsonb_array_elements(doc), id FROM users", JSONB, INT4).key_positions == ()


def test_a_query_too_deep_for_us_is_left_to_postgres():
    deep = "SELECT id FROM users WHERE id = 1" + " AND (id = 1" * 3000 + ")" * 3000
    assert planned(deep, INT4).strategy is Strategy.SOURCE
