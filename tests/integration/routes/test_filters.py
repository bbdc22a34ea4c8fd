"""A route's WHERE over rows of the log says what PostgreSQL says of the same rows in the table."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.pgoutput.messages import ABSENT, Column, Relation
from services.capture.outbound import watch
from services.chassis.postgres import Postgres
from services.recompute.outbound.postgres.topic_filters import NOT_IN_LOG, Filter, TopicFilters

TABLE = """
create schema app;
create domain app.small as int check (value < 1000);
create table app.mixed (
    id int primary key, n numeric(10, 2), f float8, t text, v varchar(5), c char(4), b bool, d date, ts timestamptz,
    i interval, j jsonb, a int[], u uuid, y bytea, s app.small, "Odd name" text);
insert into app.mixed values
    (1, 1.10, 0.1, 'abc', 'x', 'ab', true, '2026-01-31', '2026-01-31 12:00+00', '1 day', '{"k": [1, 2]}', '{1,2}',
     '00000000-0000-0000-0000-000000000001', '\\x00ff', 5, 'it''s "here"\\'),
    (2, null, 'NaN', '', null, 'zz', false, '-infinity', 'infinity', '1 month -1 day', 'null', '{}',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', '', null, null),
    (3, 0, '-Infinity', 'ÄÖ', 'ä', null, null, null, null, null, null, '{null,3}', null, null, 999, '{},"');
"""
EXPRESSIONS = [
    "true",
    "null::boolean",
    "id % 2 = 1",
    "n > 1 or n is null",
    "f = 'NaN' or f < 0",
    "t ilike 'ä%' or t = ''",
    "c = 'ab  ' and c || '|' = 'ab|'",
    "b is not true",
    "not b",
    "d < '2026-02-01'",
    "ts at time zone 'Europe/Berlin' > timestamp '2026-01-31 12:30'",
    "i > interval '25 days'",
    "j -> 'k' @> '[2]'",
    "3 = any (a) or cardinality(a) = 0",
    "u > '00000000-0000-0000-0000-000000000009'",
    "length(y) = 2",
    "s + 1 > 999",
    '"Odd name" like \'%"%\'',
    "mixed.id = 3 or (mixed.*) is not null",
    "id in (1, 3) and v is not distinct from 'x' -- a comment",
    "id = 1) or (id = 2",
]


@pytest.fixture
def table(database: str) -> Iterator[tuple[psycopg.Connection[Any], Postgres]]:
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in PINNED_TEXT_SETTINGS.items())
    with psycopg.connect(database, autocommit=True, options=options) as connection:
        watch.install(connection)
        connection.execute(TABLE.encode())
        yield connection, Postgres(dsn=database)


def relation_of(connection: psycopg.Connection[Any]) -> Relation:
    found = connection.execute(
        "select attname, atttypid::int8, atttypmod from pg_attribute "
        "where attrelid = 'app.mixed'::regclass and attnum > 0 order by attnum"
    )
    columns = tuple(Column(name, oid, modifier, name == "id") for name, oid, modifier in found)
    return Relation(1, "app", "mixed", "f", columns)


def rows_of(connection: psycopg.Connection[Any], relation: Relation) -> list[tuple[bytes | None, ...]]:
    with connection.cursor().copy("copy (select * from app.mixed order by id) to stdout") as stream:
        return [tuple(None if value is None else value.encode() for value in row) for row in stream.rows()]


def test_filters_agree_with_postgresql_over_all_types(table: tuple[psycopg.Connection[Any], Postgres]):
    connection, postgres = table
    relation = relation_of(connection)
    rows = rows_of(connection, relation)
    filters = TopicFilters(postgres)
    role = connection.info.user
    found, expected = {}, {}
    for expression in EXPRESSIONS:
        answered = connection.execute(
            f"select coalesce((\n{expression}\n), false) from app.mixed order by id".encode()
            if ") or (" not in expression
            else b"select id < 3 from app.mixed order by id"
        )
        expected[expression] = [row[0] for row in answered]
        found[expression] = filters.judge(Filter(role, "app", "mixed", expression), relation, rows)
    filters.close()
    assert found == expected


def test_an_error_is_that_of_its_row_alone(table: tuple[psycopg.Connection[Any], Postgres]):
    connection, postgres = table
    relation = relation_of(connection)
    rows = rows_of(connection, relation)
    filters = TopicFilters(postgres)

    def judge(expression: str, given: Any = rows) -> list[bool | str]:
        return filters.judge(Filter(connection.info.user, "app", "mixed", expression), relation, given)

    assert judge("1 / (id - 2) > 0") == [False, "division by zero", True]
    assert judge("gone = 1") == ['column "gone" does not exist'] * 3
    assert judge("id > 1", [(ABSENT, *rows[0][1:]), rows[1]]) == [NOT_IN_LOG, True]
    assert judge("id > 0", rows * 1500) == [True] * 4500
    assert judge("pg_sleep(60) is null")[0] != True  # noqa: E712
    filters.close()
