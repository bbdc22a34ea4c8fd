"""A route's WHERE and a live query's mean the same: both are PostgreSQL's own word about the row."""

import psycopg
import pytest

from proto.pgoutput.messages import Column, Relation
from services.chassis.postgres import Postgres
from services.recompute.outbound.postgres.topic_filters import Filter, TopicFilters

ROWS = [
    (1, "5", "Ähre", "{a,NULL}", '{"k": [1, 2]}'),
    (2, None, "äHRE", "{}", None),
    (3, "NaN", "zebra ", None, '{"k": null}'),
    (4, "-0.50", None, "{a,b}", "[]"),
    (5, "10", "", '{"x y"}', '"5"'),
]
EXPRESSIONS = (
    "total > 4",
    "total = 'NaN' or total <> total",
    "note ilike 'ä%'",
    "note < 'b' collate \"C\"",
    "note || 'x' is null",
    "tags @> array['a']::text[] or tags is null",
    "document -> 'k' = 'null'::jsonb or document @> '[]'",
    "not (total > 4)",
    "coalesce(length(note), -1) in (-1, 0, 6)",
    "orders.id between symmetric 4 and 2",
    "null",
    "(orders).id % 2 = 1",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_kr5_a_route_takes_the_rows_that_a_select_has(database: str, expression: str):
    """As a live query of the same WHERE would: its result is the SELECT's."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "create schema app; create table app.orders "
            "(id int primary key, total numeric, note varchar(20), tags text[], document jsonb)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("insert into app.orders values (%s, %s, %s, %s, %s)", ROWS)
        columns = connection.execute(
            "select attname, atttypid::int8, atttypmod, attnum = 1 from pg_attribute "
            "where attrelid = 'app.orders'::regclass and attnum > 0 order by attnum"
        ).fetchall()
        selected = connection.execute(f"select id from app.orders where {expression} order by id".encode())
        expected = [number for (number,) in selected]
        (role,) = connection.execute("select current_user::text").fetchone() or ()
    relation = Relation(1, "app", "orders", "f", tuple(Column(*each) for each in columns))
    rows = [tuple(None if value is None else str(value).encode() for value in row) for row in ROWS]
    filters = TopicFilters(Postgres(dsn=database))
    try:
        verdicts = filters.judge(Filter(role, "app", "orders", expression), relation, rows)
    finally:
        filters.close()
    assert [row[0] for row, verdict in zip(ROWS, verdicts, strict=True) if verdict is True] == expected
    assert not [verdict for verdict in verdicts if isinstance(verdict, str)]
