"""The Python client on the whole stack: what it holds is what PostgreSQL answers (V18–V30, V39, V53)."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import tidewire
from tidewire import Deleted, Initial, Inserted, Renewed, Replaced, Retry, Updated

ROOT = Path(__file__).parents[3]
QUICK = Retry(first_s=0.2, cap_s=1.0)
SUMS = (
    "SELECT g.category, count(*), sum(s.pieces * g.price) FROM sales s JOIN goods g ON g.id = s.goods"
    " WHERE s.paid GROUP BY g.category"
)


@pytest.fixture(scope="module")
def shop(stack):
    with stack.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, category text NOT NULL, price numeric(10, 2))")
        connection.execute("CREATE TABLE sales (id int PRIMARY KEY, goods int NOT NULL, pieces int, paid boolean)")
        connection.execute(
            "INSERT INTO goods VALUES (1, 'tea', 4.50), (2, 'tea', 6), (3, 'cups', 12), (4, 'pots', 39.9)"
        )
        connection.execute("INSERT INTO sales SELECT n, 1 + n % 4, 1 + n % 3, n % 5 <> 0 FROM generate_series(1, 60) n")
        yield connection


def answer(connection, sql):
    rows = psycopg.ClientCursor(connection).execute(sql)
    return sorted(tuple(None if value is None else str(value) for value in row) for row in rows)


async def until(subscription, wanted, within_s=60.0):
    """Take changes until the merged result is this; returns them."""
    changes, deadline = [], time.monotonic() + within_s
    while sorted(subscription.rows) != wanted:
        assert time.monotonic() < deadline, (sorted(subscription.rows), wanted)
        change = await subscription.next(1.0)
        changes += [] if change is None else [change]
    return changes


async def test_a_subscription_tells_its_rows_and_then_what_changed(stack, shop):
    sql = "SELECT id, pieces, paid FROM sales WHERE goods = $1"
    async with (
        await tidewire.connect(stack.gateway_dsn) as live,
        live.subscribe(sql, [1], filter="pieces < 100", decode={"id": int, 1: int}) as sales,
    ):
        assert sales.columns == ("id", "pieces", "paid")
        first = await anext(sales)
        assert isinstance(first, Initial) and sorted(first.rows) == sorted(sales.rows)
        assert (4, 2, "t") in sales.rows

        shop.execute("INSERT INTO sales VALUES (1000, 1, 5, false), (1001, 2, 5, false)")
        assert await anext(sales) == Inserted(((1000, 5, "f"),))
        shop.execute("UPDATE sales SET paid = NULL WHERE id IN (1000, 1001)")
        assert await anext(sales) == Updated((Replaced((1000, 5, "f"), (1000, 5, None)),))
        shop.execute("UPDATE sales SET pieces = 100 WHERE id = 1000")  # leaves the filter (V16)
        assert await anext(sales) == Deleted(((1000, 5, None),))

        sales.pause()
        await live.query("INSERT INTO sales VALUES (1002, 1, 1, true)")
        await live.query("DELETE FROM sales WHERE id = 1002; INSERT INTO sales VALUES (1003, 1, 2, true)")
        assert await sales.next(1.5) is None
        sales.resume()
        await live.query("INSERT INTO sales VALUES (1004, 1, 3, true)")
        missed = await anext(sales)
        assert isinstance(missed, Inserted) and sorted(missed.rows) == [(1003, 2, "t"), (1004, 3, "t")]
        shop.execute("DELETE FROM sales WHERE id >= 1000")


async def test_an_aggregate_over_a_join_is_followed_without_naming_a_key(stack, shop):
    async with await tidewire.connect(stack.gateway_dsn) as live, live.subscribe(SUMS) as sums:
        assert (sums.tables, sorted(sums.rows)) == (2, answer(shop, SUMS))
        shop.execute("UPDATE sales SET pieces = pieces + 1 WHERE goods = 3")
        changes = await until(sums, answer(shop, SUMS))
        shop.execute("UPDATE sales SET paid = NOT paid")
        changes += await until(sums, answer(shop, SUMS))
        shop.execute("UPDATE goods SET category = 'cups' WHERE id = 2")
        changes += await until(sums, answer(shop, SUMS))
        shop.execute("UPDATE sales SET paid = false WHERE goods = 4")
        changes += await until(sums, answer(shop, SUMS))
        assert not any(isinstance(change, Renewed) for change in changes)


async def test_ordinary_sql_goes_beside_live_results_and_transactions_are_left_alone(stack, shop):
    async with await tidewire.connect(stack.gateway_dsn) as live:
        await live.query("BEGIN")
        await live.query("INSERT INTO goods VALUES (50, 'mine', 1)")
        with pytest.raises(tidewire.SubscriptionRefused, match=r"Parse error: .*; correct the query"):
            await live.subscribe("SELEKT 1").open()
        with pytest.raises(tidewire.SubscriptionRefused, match="table 'nowhere' does not exist"):
            await live.subscribe("SELECT * FROM nowhere").open()
        async with live.subscribe("SELECT id, category FROM goods WHERE id >= 50") as goods:
            assert await anext(goods) == Initial(())
            assert await live.query("SELECT count(*) FROM goods WHERE id = 50") == [("1",)]
            await live.query("COMMIT")
            assert await anext(goods) == Inserted((("50", "mine"),))
            with pytest.raises(tidewire.ServerError) as failed:
                await live.query("SELECT 1 / 0")
            assert failed.value.sqlstate == "22012"
            await live.query("DELETE FROM goods WHERE id = 50")
            assert await anext(goods) == Deleted((("50", "mine"),))
        assert [change async for change in goods] == []


@pytest.mark.slow
async def test_after_a_kill_of_the_gateway_the_result_goes_on(stack, shop):
    """The consumer sees one merged result: what was missed comes as the difference, then changes as before."""
    sql = "SELECT id, pieces FROM sales WHERE goods = 2"
    async with (
        await tidewire.connect(stack.gateway_dsn, retry=QUICK) as live,
        live.subscribe(sql) as sales,
        live.subscribe(SUMS) as sums,
    ):
        assert isinstance(await anext(sales), Initial) and isinstance(await anext(sums), Initial)
        stack.kill("gateway")
        shop.execute("INSERT INTO sales VALUES (2000, 2, 7, true)")
        shop.execute("DELETE FROM sales WHERE id = 1")
        stack.start("gateway")
        async with asyncio.timeout(120):
            renewed = await anext(sales)
        assert isinstance(renewed, Renewed) and "connection" in renewed.because
        assert (renewed.inserted, renewed.deleted) == ((("2000", "7"),), (("1", "2"),))
        assert sorted(sales.rows) == answer(shop, sql)
        await until(sums, answer(shop, SUMS))
        shop.execute("UPDATE sales SET pieces = 8 WHERE id = 2000")
        async with asyncio.timeout(60):
            assert await anext(sales) == Updated((Replaced(("2000", "7"), ("2000", "8")),))
        await until(sums, answer(shop, SUMS))
        assert await live.query("SELECT 1") == [("1",)]


def test_a_program_without_asyncio_gets_the_same(stack, shop):
    with tidewire.connect_sync(stack.gateway_dsn) as live, live.subscribe("SELECT id, price FROM goods") as goods:
        assert isinstance(next(goods), Initial) and sorted(goods.rows) == answer(shop, "SELECT id, price FROM goods")
        live.query("INSERT INTO goods VALUES (60, 'new', 1.5)")
        assert goods.next(60.0) == Inserted((("60", "1.50"),))
        live.query("DELETE FROM goods WHERE id = 60")
        assert goods.next(60.0) == Deleted((("60", "1.50"),))
        assert goods.next(0.2) is None


async def test_beside_psycopg_it_is_the_same_user_in_the_same_settings(stack, shop):
    shop.execute("CREATE SCHEMA IF NOT EXISTS attic; CREATE TABLE attic.things (id int PRIMARY KEY, seen timestamptz)")
    shop.execute("INSERT INTO attic.things VALUES (1, '2026-01-01 00:00+00')")
    async with await psycopg.AsyncConnection.connect(stack.gateway_dsn, options="-c search_path=attic") as connection:
        await connection.execute("SET TimeZone = 'Asia/Tokyo'")
        async with (
            await tidewire.attach(connection) as live,
            live.subscribe("SELECT id, seen FROM things") as things,
        ):
            assert things.rows == (("1", "2026-01-01 09:00:00+09"),)
    shop.execute("DROP SCHEMA attic CASCADE")


def readme_example():
    return re.search(r"```python\n(.*?)```", (ROOT / "clients/python/README.md").read_text(), re.DOTALL)[1]


def test_the_quick_start_of_the_readme_runs_and_says_what_happens(stack, shop):
    said = subprocess.run(
        [sys.executable, "-c", readme_example()],
        env={**os.environ, "GATEWAY": stack.gateway_dsn},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.splitlines()
    assert said == [
        "now: ()",
        "first: ()",
        "now: ((1, 'packed'),)",
        "new: ((1, 'packed'),)",
        "now: ((1, 'sent'),)",
        "changed: [((1, 'packed'), (1, 'sent'))]",
        "now: ()",
        "gone: ((1, 'sent'),)",
    ]


def watch(stack, *arguments):
    command = [sys.executable, "-m", "services.cli", "watch", "--dsn", stack.gateway_dsn, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_watch_shows_a_result_once_and_as_json(stack, shop):
    sql = "SELECT id, category FROM goods WHERE id < $1"
    shown = watch(stack, sql, "--param", "3", "--once")
    assert (shown.returncode, "id" in shown.stdout, "2 rows" in shown.stdout) == (0, True, True), shown
    first, *_ = map(json.loads, watch(stack, sql, "--param", "2", "--json", "--for", "1").stdout.splitlines())
    assert (first["change"], first["rows"]) == ("initial", [{"id": "1", "category": "tea"}])


def test_watch_says_in_a_sentence_what_is_wrong(stack, shop):
    refused = watch(stack, "SELECT * FROM nowhere", "--once")
    words = "tidewire: Execution error: table 'nowhere' does not exist; correct the name or make what it names"
    assert (refused.returncode, refused.stdout) == (2, "") and refused.stderr.startswith(words), refused
