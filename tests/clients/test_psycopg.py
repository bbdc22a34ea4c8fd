"""psycopg 3, which is libpq, works through the gateway as it does directly (issue 5)."""

import asyncio
import hashlib
import queue
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import pq, sql

from tests.clients.sample import SPEAK, TABLE

DIAGNOSTICS = [name for name in dir(psycopg.errors.Diagnostic) if not name.startswith("_") and name != "pgresult"]


def failure(error):
    """An error with all its fields."""
    return type(error).__name__, str(error), {name: getattr(error.diag, name) for name in DIAGNOSTICS}


def test_what_a_session_knows_of_its_server(doors):
    def program(door):
        with psycopg.connect(door.dsn, application_name="known", autocommit=True) as connection:
            info = connection.info
            names = ("server_version", "server_encoding", "client_encoding", "application_name", "is_superuser",
                     "session_authorization", "DateStyle", "IntervalStyle", "TimeZone", "integer_datetimes",
                     "standard_conforming_strings", "in_hot_standby", "default_transaction_read_only", "search_path",
                     "scram_iterations")  # fmt: skip
            [pid] = connection.execute("SELECT pg_backend_pid()").fetchone()
            connection.execute("SET search_path = pg_catalog")
            connection.execute("SET TimeZone = 'Asia/Tokyo'")
            return info.server_version, info.backend_pid == pid, {name: info.parameter_status(name) for name in names}

    _, same_pid, statuses = doors.same(program)
    assert same_pid
    assert (statuses["application_name"], statuses["search_path"], statuses["TimeZone"]) == (
        "known",
        "pg_catalog",
        "Asia/Tokyo",
    )


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_values_of_every_type(doors, binary):
    def program(door):
        with psycopg.connect(door.dsn, autocommit=True) as connection:
            connection.execute(TABLE)
            with connection.cursor(binary=binary) as cursor:
                cursor.execute("SELECT * FROM sample ORDER BY id")
                described = [(column.name, column.type_code, column.internal_size) for column in cursor.description]
                rows = cursor.fetchall()
                cursor.execute("SELECT id, flag, whole, exact, letters, raw, instant FROM sample WHERE id = 1")
                cursor.execute("SELECT %s, %s, %s, %s, %s, %s, %s", cursor.fetchone())
                builtin = [row for row in described if row[0] not in ("feeling", "both_of")]  # their OIDs are new ones
                return repr((builtin, rows, cursor.fetchall()))

    assert "Grüße" in doors.same(program)


def test_errors_and_notices_carry_every_field(doors):
    def program(door):
        notices = []
        with psycopg.connect(door.dsn, autocommit=True) as connection:
            connection.add_notice_handler(
                lambda diag: notices.append({name: getattr(diag, name) for name in DIAGNOSTICS})
            )
            connection.execute(SPEAK)
            connection.execute("CREATE TABLE t (id int PRIMARY KEY CHECK (id > 0))")
            failures = []
            for statement in ("SELECT speak()", "INSERT INTO t VALUES (0)", "SELECT nothing",
                              "INSERT INTO t VALUES (1), (1)",
                              "SELECT 1/0", "SELECT 'x'::int", "(", "SELECT * FROM nowhere"):  # fmt: skip
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(statement)
                failures.append(failure(caught.value))
        return failures, notices

    failures, notices = doors.same(program)
    assert failures[0][2]["constraint_name"] == "a constraint"
    assert notices[0]["message_hint"] == "its hint"


def test_many_prepared_statements(doors):
    def program(door):
        with psycopg.connect(door.dsn, autocommit=True, prepare_threshold=0) as connection:
            connection.prepared_max = None
            answers = [connection.execute(f"SELECT %s + {n}", [n]).fetchone() for n in range(1500)]
            answers += [connection.execute(f"SELECT %s + {n}", [n]).fetchone() for n in range(1500)]
            names = connection.execute("SELECT count(*), min(name), max(length(name)) FROM pg_prepared_statements")
            answers.append(names.fetchone())
            connection.execute("DEALLOCATE ALL")
            answers.append(connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone())
            connection.prepared_max = 3
            answers += [connection.execute(f"SELECT %s * {n}", [n]).fetchone() for n in range(20)]
            answers.append(connection.execute("SELECT count(*) < 10 FROM pg_prepared_statements").fetchone())
            return answers

    answers = doors.same(program)
    assert answers[3000][0] >= 1500
    assert answers[-1] == (True,)


def test_a_pipeline_with_errors_and_syncs(doors):
    def program(door):
        said = []
        with psycopg.connect(door.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a int PRIMARY KEY)")
            with connection.pipeline() as pipeline:
                cursor.executemany("INSERT INTO t VALUES (%s) RETURNING a", [(n,) for n in range(2000)], returning=True)
                pipeline.sync()
                said.append(sum(row[0] for result in cursor.results() for row in result.fetchall()))
            with connection.pipeline():
                with connection.transaction():
                    connection.execute("INSERT INTO t VALUES (5000)")
                with pytest.raises(ZeroDivisionError), connection.transaction():
                    connection.execute("INSERT INTO t VALUES (5001)")
                    raise ZeroDivisionError
                said.append(connection.execute("SELECT count(*), max(a) FROM t").fetchone())
            return said

    assert doors.same(program)[1] == (2001, 5000)


def test_a_pipeline_of_libpq_result_by_result(doors):
    def program(door):
        connection = pq.PGconn.connect(door.dsn.encode())
        connection.exec_(b"CREATE TABLE t (a int PRIMARY KEY)")
        connection.enter_pipeline_mode()
        for group in (["1", "2"], ["3", "2", "4"], ["5"]):
            for value in group:
                connection.send_query_params(b"INSERT INTO t VALUES ($1) RETURNING a", [value.encode()])
            connection.pipeline_sync()
        connection.send_query_params(b"SELECT array_agg(a ORDER BY a) FROM t", None)
        connection.send_flush_request()
        connection.flush()
        said, silent = [], 0
        while silent < 2:
            result = connection.get_result()
            silent = 0 if result is not None else silent + 1
            if result is not None:
                said.append(
                    (
                        pq.ExecStatus(result.status).name,
                        result.command_status,
                        result.get_value(0, 0),
                        result.error_message,
                    )
                )
                if result.get_value(0, 0) == b"{1,2,5}":
                    break
        connection.finish()
        return said

    kinds = [kind for kind, *_ in doors.same(program)]
    assert kinds.count("PIPELINE_SYNC") == 3
    assert kinds.count("PIPELINE_ABORTED") == 1


def test_cursors_of_the_server(doors):
    def program(door):
        said = []
        with psycopg.connect(door.dsn) as connection:
            with connection.cursor("scrolling", scrollable=True, binary=True) as cursor:
                cursor.itersize = 7
                cursor.execute("SELECT g, repeat('x', g %% 10) FROM generate_series(1, %s) g", [500])
                said.append(cursor.fetchmany(3))
                said.append([row[0] for row in cursor])
                cursor.scroll(-100)
                said.append(cursor.fetchone())
                cursor.scroll(10, mode="absolute")
                said.append(cursor.fetchmany(2))
                with pytest.raises(IndexError):
                    cursor.scroll(-100)
                    said.append(cursor.fetchone())
                    raise IndexError
            with connection.cursor("held", withhold=True) as cursor:
                cursor.execute("SELECT g FROM generate_series(1, 9) g")
                connection.commit()
                said.append(cursor.fetchall())
            with connection.cursor() as cursor:
                said.append(sum(row[0] for row in cursor.stream("SELECT g FROM generate_series(1, 5000) g")))
                said.append(sum(row[0] for row in cursor.stream("SELECT g FROM generate_series(1, 5000) g", size=64)))
                with pytest.raises(psycopg.errors.DivisionByZero):
                    for row in cursor.stream("SELECT 100 / (50 - g) FROM generate_series(1, 100) g"):
                        said.append(row)
        return said

    assert doors.same(program)[1][-1] == 500


@pytest.mark.parametrize("form", ["text", "binary", "csv"])
def test_copy_in_both_directions(doors, form):
    def program(door):
        with psycopg.connect(door.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a int, b text)")
            query = (
                f"COPY (SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, 50000) g) TO STDOUT (FORMAT {form})"
            )
            with cursor.copy(query) as out:
                pieces = [bytes(piece) for piece in out]
            with cursor.copy(f"COPY t FROM STDIN (FORMAT {form})") as into:
                for piece in pieces:
                    into.write(piece)
            said = [len(pieces), hashlib.sha256(b"".join(pieces)).hexdigest(), cursor.statusmessage]
            said.append(cursor.execute("SELECT count(*), sum(a), md5(string_agg(b, '' ORDER BY a)) FROM t").fetchone())
            with pytest.raises(psycopg.errors.QueryCanceled) as given_up, cursor.copy("COPY t FROM STDIN") as into:
                into.write("1\ta\n")
                raise psycopg.errors.QueryCanceled("the client gives up")
            with pytest.raises(psycopg.errors.BadCopyFileFormat) as refused, cursor.copy("COPY t FROM STDIN") as into:
                for _ in range(20_000):
                    into.write("1\ta\ttoo many\n")
            said += [str(given_up.value), failure(refused.value)]
            return said, cursor.execute("SELECT count(*) FROM t").fetchone()

    assert doors.same(program)[1] == (50_000,)


def test_notifications_from_another_session(doors):
    def program(door):
        with (
            psycopg.connect(door.dsn, autocommit=True) as listener,
            psycopg.connect(door.dsn, autocommit=True) as speaker,
        ):
            listener.execute('LISTEN "Ein Kanal"; LISTEN other')
            for n in range(50):
                speaker.execute("SELECT pg_notify(%s, %s)", ["Ein Kanal" if n % 2 else "other", "ü" * n])
            speaker.execute("NOTIFY unheard; NOTIFY other, 'last'")
            heard = list(listener.notifies(timeout=20, stop_after=51))
            return [(n.channel, n.payload, n.pid == speaker.info.backend_pid) for n in heard]

    heard = doors.same(program)
    assert heard[-1] == ("other", "last", True)
    assert len(heard) == 51


@pytest.mark.parametrize("way", ["cancel", "cancel_safe"])
@pytest.mark.parametrize("protocol", ["3.0", "3.2"])
def test_cancellation_from_another_thread(doors, way, protocol):
    def program(door):
        with psycopg.connect(door.dsn, autocommit=True, max_protocol_version=protocol) as connection:
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(connection.execute, "SELECT pg_sleep(60) -- to be cancelled")
                doors.wait_until_runs("to be cancelled")
                getattr(connection, way)()
                cancelled = running.exception(30)
            return (
                failure(cancelled),
                connection.execute("SELECT 1").fetchone(),
                connection.pgconn.full_protocol_version,
            )

    assert doors.same(program)[0][0] == "QueryCanceled"


def test_large_values_both_ways(doors):
    def program(door):
        large = bytes(range(256)) * 100_000
        with psycopg.connect(door.dsn) as connection, connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT %b, length(%b), md5(%b)", [large, large, large])
            back, length, digest = cursor.fetchone()
            cursor.execute("SELECT repeat('x', 30000000)")
            [text] = cursor.fetchone()
            return back == large, length, digest, len(text)

    assert doors.same(program)[0]


def test_transactions_and_their_status(doors):
    def program(door):
        said = []
        with psycopg.connect(door.dsn) as connection:

            def note():
                said.append(pq.TransactionStatus(connection.info.transaction_status).name)

            note()
            connection.execute("CREATE TABLE t (a int)")
            note()
            with pytest.raises(psycopg.Error) as caught:
                connection.execute("SELECT 1/0")
            note()
            with pytest.raises(psycopg.Error) as aborted:
                connection.execute("SELECT 1")
            said += [failure(caught.value), failure(aborted.value)]
            connection.rollback()
            note()
            connection.execute("CREATE TABLE t (a int)")
            with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
                connection.execute("INSERT INTO t VALUES (1/0)")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.commit()
            connection.tpc_begin("two-phase-by-client")
            connection.execute("INSERT INTO t VALUES (2)")
            connection.tpc_prepare()
            note()
            with psycopg.connect(door.dsn) as other:
                said.append([str(xid) for xid in other.tpc_recover()])
            connection.tpc_commit()
            said.append(connection.execute("SELECT array_agg(a) FROM t").fetchone())
            connection.commit()
            connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            note()
        return said

    assert ([1, 2],) in doors.same(program)


def test_a_pool_of_connections_shared_by_threads(doors):
    def program(door):
        pool = queue.SimpleQueue()
        for _ in range(6):
            pool.put(psycopg.connect(door.dsn, autocommit=True, prepare_threshold=0))
        with psycopg.connect(door.dsn, autocommit=True) as first:
            first.execute("CREATE TABLE account (id int PRIMARY KEY, n int)")
            first.execute("INSERT INTO account SELECT g, 0 FROM generate_series(0, 9) g")

        def work(n):
            connection = pool.get()
            try:
                with connection.transaction():
                    connection.execute("UPDATE account SET n = n + %s WHERE id = %s", [n, n % 10])
                return connection.execute("SELECT %s::int * 2", [n]).fetchone()[0]
            finally:
                pool.put(connection)

        with ThreadPoolExecutor(12) as threads:
            answers = list(threads.map(work, range(400)))
        while not pool.empty():
            pool.get().close()
        with psycopg.connect(door.dsn) as last:
            return answers, last.execute("SELECT * FROM account ORDER BY id").fetchall()

    answers, rows = doors.same(program)
    assert answers == [2 * n for n in range(400)]
    assert sum(n for _, n in rows) == sum(range(400))


def test_asyncio(doors):
    async def sessions(door):
        said = []
        async with await psycopg.AsyncConnection.connect(door.dsn, autocommit=True) as connection:
            async with connection.pipeline():
                cursors = [await connection.execute("SELECT %s::int", [n]) for n in range(100)]
                said.append([await cursor.fetchone() for cursor in cursors])
            sleeping = asyncio.create_task(connection.execute("SELECT pg_sleep(60) -- abandoned"))
            await asyncio.to_thread(doors.wait_until_runs, "abandoned")
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping
            await asyncio.to_thread(doors.wait_until_ended, "abandoned")
            said.append(await (await connection.execute("SELECT 'alive'")).fetchone())
        others = [await psycopg.AsyncConnection.connect(door.dsn) for _ in range(10)]
        found = await asyncio.gather(*(other.execute("SELECT %s::text", [n]) for n, other in enumerate(others)))
        said.append([await cursor.fetchone() for cursor in found])
        for other in others:
            await other.close()
        return said

    assert doors.same(lambda door: asyncio.run(sessions(door)))[1] == ("alive",)


def test_names_are_quoted_the_same(doors):
    def program(door):
        with psycopg.connect(door.dsn) as connection:
            name = sql.Identifier('Ein "Name"; --').as_string(connection)
            return name, connection.execute(f"SELECT 1 AS {name}").description[0].name

    assert doors.same(program)[1] == 'Ein "Name"; --'
