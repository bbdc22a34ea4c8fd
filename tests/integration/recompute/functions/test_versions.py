"""What Spark is proven to print as PostgreSQL 18 does, the other supported versions print the same."""

import psycopg
import pytest

from tests.fixtures.postgres import bin_of, start_postgres
from tests.integration.recompute.functions.edges import SQL, Edges
from tests.integration.recompute.functions.expected import Expression, listed
from tests.integration.recompute.functions.test_functions import LISTS

FIRST_OF_USERS = 16_384
CLOCK = ("now()", "current_date", "current_timestamp", "localtimestamp", "transaction_timestamp()")


def answer(edges: Edges, expression: Expression) -> object:
    """What it prints, with its type, or the SQLSTATE of its error."""
    try:
        with edges.connection.transaction():
            texts, oid, modifier = edges.answer(expression.sql, expression.where)
            return texts, "our own" if oid >= FIRST_OF_USERS else oid, modifier
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize("version", [15, 16])
def test_an_older_postgres_prints_the_same(version: int, edges: Edges, tmp_path):
    """Older ones have no pg_c_utf8: they compare the column by bytes as well."""
    assert (bin_of(version) / "postgres").exists(), f"`apt-get install postgresql-{version}`"
    expressions = [one for name in (*LISTS, "failing") for one in listed(name)]
    still = [one for one in expressions if not any(word in one.sql.lower() for word in CLOCK)]
    assert len(still) > 500
    with start_postgres(tmp_path / "postgres", version) as server, psycopg.connect(server.dsn_of("postgres")) as older:
        there = Edges(older, SQL.replace("pg_c_utf8", "ucs_basic"))
        wrong = {one.sql: (answer(there, one), answer(edges, one)) for one in still}
    assert {sql: pair for sql, pair in wrong.items() if pair[0] != pair[1]} == {}
