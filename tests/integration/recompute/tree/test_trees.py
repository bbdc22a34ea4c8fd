"""The trees that PostgreSQL 15, 16 and 18 print are read whole, and say what PostgreSQL itself says of a query."""

from decimal import Decimal

import psycopg
import pytest

from services.recompute.core.tree.constants import value_of
from services.recompute.core.tree.facts import (
    RequiredPermission,
    has_one_answer,
    output_columns,
    reads_system_columns,
    required_permissions,
)
from services.recompute.core.tree.nodes import Const, NotUnderstood, Query
from services.recompute.core.tree.reading import read_tree
from services.recompute.core.tree.text import read, written
from services.recompute.core.tree.walking import walk
from tests.exact import corpus
from tests.integration.recompute.planning import corpus as planning_corpus
from tests.integration.recompute.tree.descriptions import described

RIGHTS = """
CREATE ROLE tree_owner; CREATE ROLE tree_reader;
CREATE SCHEMA owned; GRANT USAGE ON SCHEMA owned TO PUBLIC; GRANT CREATE ON SCHEMA owned TO tree_owner;
CREATE TABLE owned.base (id int PRIMARY KEY, secret text, shown text);
CREATE TABLE owned.plain (id int, other int);
GRANT SELECT ON owned.base TO tree_owner;
SET ROLE tree_owner;
CREATE VIEW owned.by_owner AS SELECT id, shown FROM owned.base WHERE secret IS NOT NULL;
CREATE VIEW owned.by_invoker WITH (security_invoker = 'T') AS SELECT id FROM owned.base;
RESET ROLE;
"""
CONSTANTS = {
    "true": True,
    "7": 7,
    "-2147483648": -(2**31),
    "3000000000": 3_000_000_000,
    "'-3'::int2": -3,
    "1.50": Decimal("1.50"),
    "-0.000100": Decimal("-0.000100"),
    "12345678901234567890.123": Decimal("12345678901234567890.123"),
    "100000000000": 100_000_000_000,
    "1e40": Decimal("1" + 40 * "0"),
    "'1e-30'::numeric": Decimal("1e-30"),
    "'0.00'::numeric": Decimal("0.00"),
    "'-Infinity'::numeric": Decimal("-Infinity"),
    "'1.25'::float8": 1.25,
    "'-0.5'::float4": -0.5,
    "'żółć 😀'::text": "żółć 😀",
    "'ab'::bpchar": "ab",
    "'it''s'::varchar": "it's",
    "date '2000-01-03'": 2,
    "timestamp '2000-01-01 00:00:01'": 1_000_000,
    "''::text": "",
    "NULL::int": None,
}


def tree_of(connection: psycopg.Connection, sql: str) -> Query:
    tree = read_tree(described(connection, sql).rewritten)
    assert isinstance(tree, Query), (sql, tree)
    return tree


def exact_queries() -> list[str]:
    return [question.sql for family in corpus.FAMILIES for question in corpus.questions(family)]


def planning_queries() -> list[str]:
    kinds = ("row_local", "full", "shared", "by_tuple")
    return [sql for kind in kinds for sql, _ in planning_corpus.queries(kind)]


def misread(dsn: str, queries: list[str]) -> tuple[dict[str, object], int]:
    """The queries whose tree says other columns than PostgreSQL's Describe, and how many are read whole."""
    wrong: dict[str, object] = {}
    read_whole = 0
    with psycopg.connect(dsn) as connection:
        for sql in queries:
            try:
                with connection.transaction():
                    parsed = described(connection, sql)
            except psycopg.Error:
                # An error while parsing is the answer; it has no tree.
                continue
            tree = read_tree(parsed.rewritten)
            found = [] if isinstance(tree, NotUnderstood) else output_columns(tree)
            ours = [(column.name, column.type, column.modifier) for column in found]
            if ours != parsed.columns:
                wrong[sql] = (ours, parsed.columns)
            if written(read(parsed.rewritten)) != parsed.rewritten:
                wrong[sql] = "printed otherwise"
            read_whole += not any(isinstance(node, NotUnderstood) for node in walk(tree))
    return wrong, read_whole


def test_every_query_of_the_families_has_the_columns_that_postgres_describes(tree_dsn: str):
    wrong, read_whole = misread(tree_dsn, exact_queries())
    assert (wrong, read_whole > 280) == ({}, True)


def test_every_planned_query_has_the_columns_that_postgres_describes(planning_dsn: str):
    assert misread(planning_dsn, planning_queries()) == ({}, len(planning_queries()))


@pytest.mark.parametrize("sql", CONSTANTS)
def test_a_constant_has_the_value_that_was_written(tree_dsn: str, sql: str):
    with psycopg.connect(tree_dsn) as connection:
        tree = tree_of(connection, f"SELECT {sql}")
    found = next(node for node in walk(tree) if isinstance(node, Const))
    assert repr(value_of(found)) == repr(CONSTANTS[sql])


def test_rights_are_asked_of_the_reader_and_of_the_owners_of_views(tree_dsn: str):
    with psycopg.connect(tree_dsn) as connection:
        connection.execute(RIGHTS)
        oids = {
            name: connection.execute("SELECT %s::regclass::oid::int", [f"owned.{name}"]).fetchone()[0]
            for name in ("base", "plain", "by_owner", "by_invoker")
        }
        owner = connection.execute("SELECT 'tree_owner'::regrole::oid::int").fetchone()[0]
        tree = tree_of(
            connection,
            "SELECT v.shown, i.id FROM owned.by_owner v, owned.by_invoker i "
            "WHERE v.id IN (SELECT other FROM owned.plain)",
        )
        connection.rollback()
    found = set(required_permissions(tree))
    assert found == {
        RequiredPermission(oids["by_owner"], frozenset({1, 2}), 0),
        RequiredPermission(oids["by_invoker"], frozenset({1}), 0),
        RequiredPermission(oids["base"], frozenset({1, 2, 3}), owner),
        RequiredPermission(oids["base"], frozenset({1}), 0),
        RequiredPermission(oids["plain"], frozenset({2}), 0),
    }


@pytest.mark.parametrize(
    ("sql", "has_one"),
    [
        ("SELECT count(*), sum(x), max(id) FROM t", True),
        ("SELECT sum(f8) FROM t", False),
        ("SELECT string_agg(t, ',') FROM t", False),
        ("SELECT x FROM tops", False),
        ("SELECT id FROM t LIMIT 1", False),
        ("SELECT id FROM t ORDER BY id", True),
        ("SELECT rank() OVER (ORDER BY x) FROM t", False),
        ("SELECT max(n) FROM t", False),
    ],
)
def test_what_depends_on_the_order_of_rows_has_no_single_answer(tree_dsn: str, sql: str, has_one: bool):
    with psycopg.connect(tree_dsn) as connection:
        assert has_one_answer(tree_of(connection, sql)) == has_one


def test_an_aggregate_of_a_users_own_has_no_single_answer_even_inside_a_view(tree_dsn: str):
    with psycopg.connect(tree_dsn) as connection:
        connection.execute("CREATE AGGREGATE last_of (int) (sfunc = int4larger, stype = int)")
        connection.execute("CREATE VIEW lasts AS SELECT last_of(x) AS x FROM t")
        tree = tree_of(connection, "SELECT x FROM lasts")
        connection.rollback()
    assert not has_one_answer(tree)


def test_system_columns_are_seen(tree_dsn: str):
    with psycopg.connect(tree_dsn) as connection:
        found = [reads_system_columns(tree_of(connection, f"SELECT {name} FROM t")) for name in ("ctid", "xmin", "x")]
    assert found == [True, True, False]
