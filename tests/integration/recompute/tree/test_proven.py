"""The oids on the lists of what is proven are those of the objects that they are listed as, in every version."""

from collections.abc import Mapping

import psycopg

from services.recompute.core.tree import proven


def misnamed(connection: psycopg.Connection, sql: str, listed: Mapping[str, tuple[int, ...]]) -> dict[int, object]:
    """Those whose name in the catalog is another one, or that are not there."""
    wanted = {oid: name for name, oids in listed.items() for oid in oids}
    found = dict(connection.execute(sql, [list(wanted)]).fetchall())
    return {oid: (name, found.get(oid)) for oid, name in wanted.items() if found.get(oid) != name}


def test_operators_and_functions_are_what_they_are_called(tree_dsn: str):
    functions = "SELECT oid::int, proname::text FROM pg_proc WHERE oid = ANY (%s) AND prokind = '{}' AND NOT proretset"
    with psycopg.connect(tree_dsn) as connection:
        assert (
            misnamed(
                connection, "SELECT oid::int, oprname::text FROM pg_operator WHERE oid = ANY (%s)", proven.OPERATORS
            )
            == {}
        )
        assert misnamed(connection, functions.format("f"), proven.FUNCTIONS) == {}
        assert misnamed(connection, functions.format("a"), proven.AGGREGATES) == {}
        assert misnamed(connection, functions.format("w"), proven.WINDOW_FUNCTIONS) == {}


def test_what_is_sorted_by_compares_the_type_that_it_is_listed_under(tree_dsn: str):
    of_type = (
        "SELECT o.oid::int, t.typname::text FROM pg_operator o JOIN pg_type t ON t.oid = oprleft AND t.oid = oprright "
        "WHERE o.oid = ANY (%s) AND oprname IN ('<', '=', '>')"
    )
    with psycopg.connect(tree_dsn) as connection:
        assert misnamed(connection, of_type, proven.SORTED) == {}


def test_everything_that_is_proven_is_a_pure_function(tree_dsn: str):
    """STABLE ones among them read the clock or the time zone, which the translator knows by name."""
    oids = [oid for oids in proven.FUNCTIONS.values() for oid in oids]
    with psycopg.connect(tree_dsn) as connection:
        rows = connection.execute(
            "SELECT proname::text FROM pg_proc WHERE oid = ANY (%s) AND provolatile = 'v'", [oids]
        ).fetchall()
        stable = connection.execute(
            "SELECT DISTINCT proname::text FROM pg_proc WHERE oid = ANY (%s) AND provolatile = 's' ORDER BY 1", [oids]
        ).fetchall()
    assert rows == []
    assert {name for (name,) in stable} == {
        *("concat", "concat_ws", "date", "date_part", "date_trunc", "extract", "now", "timestamp", "timestamptz"),
        *("to_char", "transaction_timestamp"),
    }
