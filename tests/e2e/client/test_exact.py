"""A handful of the queries on which Spark and PostgreSQL once differed, through the gateway: first rows and changes."""

import asyncio
import time

import psycopg
import pytest
import tidewire

from tests.exact import corpus

CHOSEN = (
    "SELECT max(ts2 - ts) FROM t",
    "SELECT id, coalesce(ts2 - ts, interval '1 hour') FROM t",
    "SELECT id FROM t WHERE (x IN (SELECT y FROM u)) IS NULL",
    "SELECT id FROM t WHERE x NOT IN (SELECT y FROM k)",
    "SELECT sum(CASE WHEN paid THEN amt ELSE 0 END) FROM sums",
    "SELECT paid, sum(amt + free), avg(amt - free) FROM sums GROUP BY paid",
    "SELECT avg(DISTINCT n), sum(DISTINCT n), count(DISTINCT n) FROM t",
    "SELECT id FROM t WHERE c = v",
    "SELECT id FROM t WHERE c = ANY (ARRAY['ab ', 'x'])",
    "SELECT id FROM t WHERE f4 IN (0.1, 0.2)",
    "SELECT id, coalesce(name, nick) < 'b' FROM t",
    'SELECT "Ö", "ö" FROM "Ä"',
    "SELECT g, max(f8), min(f8), max(f4) FROM floats GROUP BY g",
    "SELECT b, s FROM links WHERE a = ANY (ARRAY[1, 2])",
)
FAILING = "SELECT count(p / q) FROM z"
WITHIN_S = 90.0


@pytest.fixture(scope="module")
def tables(stack):
    with stack.connect() as connection:
        connection.execute(corpus.SETUP.encode())
        yield connection


def answer(connection: psycopg.Connection, sql: str) -> list[tuple[str | None, ...]]:
    """PostgreSQL's own text of every value."""
    result = connection.pgconn.exec_(sql.encode())
    cells = range(result.nfields)
    rows = [tuple(result.get_value(row, cell) for cell in cells) for row in range(result.ntuples)]
    return sorted((tuple(None if one is None else one.decode() for one in row) for row in rows), key=repr)


async def settled(subscription, wanted) -> list[tuple[str | None, ...]]:
    """The merged rows once they are the wanted ones, or what they are when time is up."""
    deadline_s = time.monotonic() + WITHIN_S
    while sorted(subscription.rows, key=repr) != wanted and time.monotonic() < deadline_s:
        await subscription.next(0.5)
    return sorted(subscription.rows, key=repr)


async def test_each_is_what_postgres_answers_first_and_after_changes(stack, tables):
    async with await tidewire.connect(stack.gateway_dsn) as live:
        opened = {sql: live.subscribe(sql) for sql in CHOSEN}
        kept = {sql: await one.__aenter__() for sql, one in opened.items()}
        for changes in (b"", corpus.CHANGES.encode()):
            tables.execute(changes)
            wanted = {sql: answer(tables, sql) for sql in CHOSEN}
            found = await asyncio.gather(*(settled(kept[sql], wanted[sql]) for sql in CHOSEN))
            assert dict(zip(CHOSEN, found, strict=True)) == wanted


async def test_an_error_that_postgres_raises_is_the_subscribers_answer(stack, tables):
    async with await tidewire.connect(stack.gateway_dsn) as live:
        with pytest.raises(tidewire.SubscriptionRefused, match="division by zero"):
            async with live.subscribe(FAILING) as subscription:
                await anext(subscription)
