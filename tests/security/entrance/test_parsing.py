"""What the entrance tells of a statement is what PostgreSQL's own Describe tells of it."""

import psycopg
import pytest

from tests.fixtures.trees import parse
from tests.security.entrance.conftest import Lair

STATEMENTS = [
    "SELECT id, id::numeric(10,2), 'x', NULL, 'y'::varchar(7), id::lair.odd, array[1], row(1, 2) FROM item",
    'SELECT id AS "a b", id AS "c)d{e", id AS "\\", id AS ":targetList (", id AS "<>", id AS "1" FROM item',
    "SELECT FROM item",
    "VALUES (1, 'a'), (2, NULL)",
    "TABLE item",
    "WITH w AS (SELECT 1 AS x) SELECT x, x FROM w ORDER BY 1;  -- done",
    "(SELECT 1) UNION ALL (SELECT 2.5) /* one; statement */",
    "SELECT $1 + id, $2::text, ';' FROM item WHERE id = ANY ($3)",
    "SELECT 'ok'::lair.mood, '{ok}'::lair.mood[], current_date, 'x'::\"char\", 'x'::char(3), b'1', interval '1 day'",
    "SELECT E'a\\'; b', $tag$;$tag$, \"id\" FROM item;;",
]


@pytest.mark.parametrize("sql", STATEMENTS)
def test_columns_and_parameters_are_those_of_describe(lair: Lair, lair_dsn: str, sql: str):
    with lair.inside() as inside:
        found = inside.parse(sql)
    with psycopg.connect(lair_dsn) as connection:
        connection.execute("SET LOCAL ROLE mallory; SET LOCAL search_path = lair, public")
        told = parse(connection, sql)
    assert (found.columns, found.parameter_types) == (told.columns, told.parameter_types)
    assert found.relations == told.relations and found.functions == told.functions
