"""What goes to PostgreSQL because of its size, and that finding this out takes no time."""

import secrets
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from services.recompute.core.complexity import too_costly
from services.recompute.core.tree.nodes import Query
from services.recompute.core.tree.reading import read_tree
from tests.fixtures.postgres import PostgresServer
from tests.integration.recompute.tree.descriptions import described

NO_TIME_S = 1.0
SCHEMA = """
CREATE TABLE t (x text, n int);
CREATE TABLE a (x int, y int); CREATE TABLE b (x int, y int); CREATE TABLE c (x int, y int); CREATE TABLE d (x int);
CREATE VIEW v0 AS SELECT x FROM t;
"""
DOUBLING = "SELECT a.x FROM {0}{1} a JOIN {0}{1} b USING (x)"
Judged = Callable[[str], str]


@pytest.fixture(scope="module")
def judged(postgres_server: PostgresServer) -> Iterator[Judged]:
    """Why a statement goes to PostgreSQL, or nothing."""
    name = f"costs_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server.create_database(name)) as connection:
        connection.execute(SCHEMA.encode())
        for level in range(1, 8):
            connection.execute(f"CREATE VIEW v{level} AS {DOUBLING.format('v', level - 1)}".encode())

        def one(sql: str) -> str:
            tree = read_tree(described(connection, sql).rewritten)
            assert isinstance(tree, Query)
            began_s = time.process_time()
            found = next(too_costly(tree), "")
            assert time.process_time() - began_s < NO_TIME_S
            return found

        yield one
    postgres_server.drop_database(name)


def test_named_queries_and_views_that_double_are_counted_as_often_as_they_are_put_in(judged: Judged) -> None:
    steps = ", ".join(f"c{n} AS ({DOUBLING.format('c', n - 1)})" for n in range(1, 27))
    assert "relations" in judged(f"WITH c0 AS (SELECT x FROM t), {steps} SELECT count(*) FROM c26")
    assert "relations" in judged(f"WITH o AS (WITH c0 AS (SELECT x FROM t), {steps} SELECT x FROM c26) SELECT x FROM o")
    assert "relations" in judged("SELECT x FROM v7 JOIN t USING (x)")
    assert judged("SELECT x FROM v6") == ""
    assert judged("WITH c AS (SELECT x FROM t) SELECT a.x FROM c a JOIN c b USING (x)") == ""


@pytest.mark.parametrize(
    ("sql", "is_product"),
    [
        ("SELECT 1 FROM a, b, c", True),
        ("SELECT 1 FROM a CROSS JOIN b CROSS JOIN c", True),
        ("SELECT 1 FROM a JOIN b ON true JOIN c ON a.x < c.x", True),
        ("SELECT 1 FROM a, b WHERE a.x < b.x", False),
        ("SELECT 1 FROM a, b, c WHERE a.x = b.x AND b.y = c.y", False),
        ("SELECT 1 FROM a JOIN b USING (x) NATURAL JOIN d", False),
        ("SELECT 1 FROM a JOIN b ON a.x = b.x AND a.y > 3 LEFT JOIN c ON (c.x = b.x)", False),
        ("SELECT 1 FROM a, b, c WHERE a.x = 1 AND b.x = 1 AND c.x = 1", True),
        ("SELECT 1 FROM a, b, c WHERE a.x = a.y AND b.x = b.y", True),
        ("SELECT 1 FROM a, b, c, d WHERE a.x = b.x AND b.y = c.y AND c.x = d.x", False),
    ],
)
def test_products_of_more_than_two_relations_go_to_postgres(judged: Judged, sql: str, is_product: bool) -> None:
    assert ("product" in judged(sql)) is is_product


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat(x, 90000000) FROM t",
        "SELECT repeat(x, n) FROM t",
        "SELECT lpad(x, $1) FROM t",
        "SELECT rpad(x, 1000000, 'y') FROM t",
        "SELECT repeat(repeat(x, 1000), 1000) FROM t",
        "SELECT replace(replace(replace(x, 'a', 'aa'), 'a', 'aa'), 'a', 'aa') FROM t",
    ],
)
def test_hungry_functions_go_to_postgres(judged: Judged, sql: str) -> None:
    assert judged(sql)


def test_ordinary_calls_do_not(judged: Judged) -> None:
    assert judged("SELECT repeat(x, 3), lpad(x, 10, '0'), replace(x, 'a', 'b') FROM t") == ""
