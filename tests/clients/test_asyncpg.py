"""asyncpg, which speaks the protocol by itself, works through the gateway as it does directly (issue 5)."""

import asyncio
import hashlib
import io

import asyncpg
import pytest

from tests.clients.sample import SPEAK, TABLE

FIELDS = ("severity", "sqlstate", "message", "detail", "hint", "position", "internal_query", "context", "schema_name",
          "table_name", "column_name", "data_type_name", "constraint_name", "server_source_filename",
          "server_source_line", "server_source_function")  # fmt: skip


def failure(error):
    return type(error).__name__, str(error), {name: getattr(error, name, None) for name in FIELDS}


def same(doors, program):
    """The program is a coroutine function of one connection."""

    async def connected(door):
        connection = await asyncpg.connect(door.dsn)
        try:
            return await program(door, connection)
        finally:
            await connection.close(timeout=20)

    return doors.same(lambda door: asyncio.run(connected(door)))


def test_values_of_every_type_in_binary(doors):
    async def program(door, connection):
        await connection.execute(TABLE)
        rows = await connection.fetch("SELECT * FROM sample ORDER BY id")
        back = await connection.fetchrow(
            "SELECT $1::int8, $2::numeric, $3::text, $4::bytea, $5::timestamptz, $6::interval, $7::int[], $8::mood",
            *(rows[0][name] for name in ("big", "exact", "letters", "raw", "instant", "span", "numbers", "feeling")),
        )
        return repr(rows), repr(back), str(connection.get_server_version())

    assert "Grüße" in same(doors, program)[0]


def test_prepared_statements_named_and_many(doors):
    async def program(door, connection):
        statements = [await connection.prepare(f"SELECT $1::int + {n} AS sum", name=f"named_{n}") for n in range(1000)]
        answers = [await statement.fetchval(n) for n, statement in enumerate(statements)]
        described = [
            (attribute.name, attribute.type.name)
            for attribute in (await connection.prepare("SELECT 1 AS a, 'x'::text AS b, now() AS c")).get_attributes()
        ]
        parameters = [kind.name for kind in (await connection.prepare("SELECT $1::int, $2::text[]")).get_parameters()]
        held = await connection.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'named%'")
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.fetch("SELECT $1::int / 0", 1)
        with pytest.raises(asyncpg.PostgresError) as stale:
            await connection.execute("CREATE TABLE t (a int)")
            selecting = await connection.prepare("SELECT * FROM t")
            await connection.execute("DROP TABLE t; CREATE TABLE t (a text, b int)")
            await selecting.fetch()
        return sum(answers), described, parameters, held, failure(caught.value), failure(stale.value)

    assert same(doors, program)[3] == 1000


def test_cursors_and_portals(doors):
    async def program(door, connection):
        async with connection.transaction():
            walked = [
                row[0] async for row in connection.cursor("SELECT g FROM generate_series(1, 1000) g", prefetch=33)
            ]
            cursor = await connection.cursor("SELECT g FROM generate_series(1, $1) g", 100)
            steps = [await cursor.fetch(5), await cursor.forward(50), await cursor.fetchrow(), await cursor.fetch(1000)]
            other = await connection.cursor("SELECT 'between'")
            return walked, repr(steps), repr(await other.fetchrow())

    assert len(same(doors, program)[0]) == 1000


def test_copy_in_both_directions(doors):
    async def program(door, connection):
        await connection.execute("CREATE TABLE t (a int, b text, c timestamptz)")
        out = io.BytesIO()
        query = "SELECT g, repeat('é', g % 40), to_timestamp(g) FROM generate_series(1, $1) g"
        said = [await connection.copy_from_query(query, 30_000, output=out, format="csv")]
        said.append(hashlib.sha256(out.getvalue()).hexdigest())
        out.seek(0)
        said.append(await connection.copy_to_table("t", source=out, format="csv"))
        records = await connection.fetch("SELECT * FROM t ORDER BY a LIMIT 5000")
        said.append(await connection.copy_records_to_table("t", records=records))
        binary = io.BytesIO()
        said.append(await connection.copy_from_table("t", output=binary, format="binary"))
        said.append(hashlib.sha256(binary.getvalue()).hexdigest())
        with pytest.raises(asyncpg.PostgresError) as caught:
            await connection.copy_to_table("t", source=io.BytesIO(b"1,2\n" * 50_000), format="csv")
        with pytest.raises(ZeroDivisionError):
            await connection.copy_to_table("t", source=_breaking(), format="csv")
        return said, failure(caught.value), await connection.fetchval("SELECT count(*) FROM t")

    assert same(doors, program)[2] == 35_000


async def _breaking():
    yield b"1,a,epoch\n"
    raise ZeroDivisionError


def test_listeners(doors):
    async def program(door, connection):
        heard, last = [], asyncio.Event()

        def hear(_, pid, channel, payload):
            heard.append((pid == speaker.get_server_pid(), channel, payload))
            if payload == "last":
                last.set()

        speaker = await asyncpg.connect(door.dsn)
        await connection.add_listener("news", hear)
        for n in range(30):
            await speaker.execute(f"NOTIFY news, '{n}'; NOTIFY unheard")
        await speaker.execute("NOTIFY news, 'last'")
        await asyncio.wait_for(last.wait(), 20)
        await speaker.close()
        return heard

    assert len(same(doors, program)) == 31


def test_a_timeout_cancels_at_the_server(doors):
    async def program(door, connection):
        with pytest.raises(TimeoutError):
            await connection.fetch("SELECT pg_sleep(60) -- timed out", timeout=0.3)
        await asyncio.to_thread(doors.wait_until_ended, "timed out")
        task = asyncio.create_task(connection.fetch("SELECT pg_sleep(60) -- given up"))
        await asyncio.to_thread(doors.wait_until_runs, "given up")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(doors.wait_until_ended, "given up")
        return await connection.fetchval("SELECT 'alive'")

    assert same(doors, program) == "alive"


def test_transactions_within_transactions(doors):
    async def program(door, connection):
        await connection.execute("CREATE TABLE t (a int PRIMARY KEY)")
        said = []
        async with connection.transaction(isolation="repeatable_read"):
            await connection.execute("INSERT INTO t VALUES (1)")
            with pytest.raises(asyncpg.UniqueViolationError) as caught:
                async with connection.transaction():
                    await connection.execute("INSERT INTO t VALUES (2)")
                    await connection.execute("INSERT INTO t VALUES (1)")
            said.append((failure(caught.value), connection.is_in_transaction()))
        await connection.executemany("INSERT INTO t VALUES ($1)", [(n,) for n in range(100, 3000)])
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.executemany("INSERT INTO t VALUES ($1)", [(n,) for n in range(5000, 4000, -1)] + [(5000,)])
        said.append(
            await connection.fetchmany("INSERT INTO t VALUES ($1) RETURNING a", [(n,) for n in range(6000, 6010)])
        )
        return repr(said), await connection.fetchval("SELECT count(*) FROM t")

    assert same(doors, program)[1] == 2911


def test_errors_and_notices(doors):
    async def program(door, connection):
        notices = []
        connection.add_log_listener(lambda _, notice: notices.append(failure(notice)))
        await connection.execute(SPEAK)
        failures = []
        for statement in ("SELECT speak()", "SELECT nothing", "SELECT 1; SELECT 1/0", "SELECT ("):
            for run in (connection.execute, connection.fetch):
                with pytest.raises(asyncpg.PostgresError) as caught:
                    await run(statement)
                failures.append(failure(caught.value))
        return failures, notices

    failures, notices = same(doors, program)
    assert failures[0][2]["constraint_name"] == "a constraint"
    assert notices[0][2]["hint"] == "its hint"


def test_a_pool(doors):
    async def pooled(door):
        async with asyncpg.create_pool(door.dsn, min_size=2, max_size=6, max_queries=20) as pool:
            await pool.execute("CREATE TABLE t (a int)")

            async def work(n):
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute("SET search_path = nowhere, public")  # the pool resets it
                    await connection.execute("INSERT INTO t VALUES ($1)", n)
                    return await connection.fetchval("SELECT $1::int * 2", n)

            answers = await asyncio.gather(*(work(n) for n in range(200)))
            return answers, await pool.fetchval("SELECT count(*) FROM t"), await pool.fetchval("SHOW search_path")

    answers, count, path = doors.same(lambda door: asyncio.run(pooled(door)))
    assert (answers, count, path) == ([2 * n for n in range(200)], 200, '"$user", public')


def test_large_values(doors):
    async def program(door, connection):
        large = bytes(range(256)) * 120_000
        row = await connection.fetchrow("SELECT $1::bytea AS back, md5($1::bytea) AS digest", large)
        text = await connection.fetchval("SELECT repeat('ü', 8000000)")
        many = await connection.fetch("SELECT g, repeat('m', 500) FROM generate_series(1, 20000) g")
        return row["back"] == large, row["digest"], len(text), sum(row[0] for row in many)

    assert same(doors, program)[0]


def test_a_session_that_is_terminated(doors):
    async def program(door, connection):
        other, ended = await asyncpg.connect(door.dsn), asyncio.Event()
        other.add_termination_listener(lambda _: ended.set())
        await connection.fetchval("SELECT pg_terminate_backend($1, 10000)", other.get_server_pid())
        await asyncio.wait_for(ended.wait(), 20)
        with pytest.raises(asyncpg.InterfaceError) as caught:
            await other.fetch("SELECT 1")
        return str(caught.value), other.is_closed()

    assert same(doors, program)[1]
