"""psycopg2 works through the gateway as it does directly (issue 5)."""

import hashlib
import io
import select
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool
import pytest

from tests.clients.sample import SPEAK, TABLE

DIAGNOSTICS = [name for name in dir(psycopg2.extensions.Diagnostics) if not name.startswith("_")]


@pytest.fixture
def opened():
    """Opens connections that are closed when the test ends: psycopg2's own `with` ends only a transaction."""
    connections = []

    def open_one(door, autocommit=True, **choices):
        connection = psycopg2.connect(door.dsn, **choices)
        connections.append(connection)
        if autocommit and not choices:
            connection.autocommit = True
        return connection

    yield open_one
    for connection in connections:
        connection.close()


def failure(error):
    return type(error).__name__, str(error), {name: getattr(error.diag, name) for name in DIAGNOSTICS}


def test_values_of_every_type(doors, opened):
    def program(door):
        cursor = opened(door).cursor()
        cursor.execute(TABLE)
        cursor.execute("SELECT * FROM sample ORDER BY id")
        return repr([[bytes(v) if isinstance(v, memoryview) else v for v in row] for row in cursor.fetchall()])

    assert "Grüße" in doors.same(program)


def test_named_cursors(doors, opened):
    def program(door):
        said = []
        with opened(door, autocommit=False) as connection:
            with connection.cursor("scrolling", scrollable=True) as cursor:
                cursor.itersize = 11
                cursor.execute("SELECT g, md5(g::text) FROM generate_series(1, %s) g", [1000])
                said += [
                    cursor.fetchmany(4),
                    cursor.description,
                    hashlib.sha256(repr(list(cursor)).encode()).hexdigest(),
                ]
                cursor.scroll(5, mode="absolute")
                said.append(cursor.fetchone())
            with connection.cursor("held", withhold=True) as cursor:
                cursor.execute("SELECT 1 UNION ALL SELECT 2")
                connection.commit()
                said.append(cursor.fetchall())
            plain = connection.cursor()
            plain.execute("SELECT name FROM pg_cursors")
            said.append(plain.fetchall())
        return said

    assert doors.same(program)[3] == (6, hashlib.md5(b"6").hexdigest())


def test_copy_in_both_directions(doors, opened):
    def program(door):
        cursor = opened(door).cursor()
        cursor.execute("CREATE TABLE t (a int, b text)")
        out = io.StringIO()
        cursor.copy_expert(
            "COPY (SELECT g, repeat('ü', g % 50) FROM generate_series(1, 40000) g) TO STDOUT (FORMAT csv)", out
        )
        cursor.copy_expert("COPY t FROM STDIN (FORMAT csv)", io.StringIO(out.getvalue()))
        said = [hashlib.sha256(out.getvalue().encode()).hexdigest(), cursor.rowcount]
        binary = io.BytesIO()
        cursor.copy_expert("COPY t TO STDOUT (FORMAT binary)", binary)
        cursor.copy_expert("COPY t FROM STDIN (FORMAT binary)", io.BytesIO(binary.getvalue()))
        with pytest.raises(psycopg2.Error) as caught:
            cursor.copy_expert("COPY t FROM STDIN", io.StringIO("1\t2\t3\n" * 10_000))
        cursor.execute("SELECT count(*), sum(a), sum(length(b)) FROM t")
        return [*said, failure(caught.value), cursor.fetchone()]

    assert doors.same(program)[1] == 40_000


def test_notifications(doors, opened):
    def program(door):
        listener, speaker = opened(door), opened(door)
        listener.cursor().execute("LISTEN news")
        for n in range(20):
            speaker.cursor().execute("SELECT pg_notify('news', %s)", [f"number {n}"])
        while len(listener.notifies) < 20:
            assert select.select([listener], [], [], 20)[0]
            listener.poll()
        return [(n.channel, n.payload, n.pid == speaker.get_backend_pid()) for n in listener.notifies]

    assert doors.same(program)[-1] == ("news", "number 19", True)


def test_cancel(doors, opened):
    def program(door):
        connection = opened(door)
        cursor = connection.cursor()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(cursor.execute, "SELECT pg_sleep(60) -- by psycopg2")
            doors.wait_until_runs("by psycopg2")
            connection.cancel()
            cancelled = running.exception(30)
        cursor.execute("SELECT 'alive'")
        return failure(cancelled), cursor.fetchone()

    assert doors.same(program)[0][0] == "QueryCanceled"


def test_errors_and_notices(doors, opened):
    def program(door):
        connection = opened(door)
        cursor = connection.cursor()
        cursor.execute(SPEAK)
        failures = []
        for statement in (
            "SELECT speak()",
            "SELECT 1/0",
            "SELECT nothing",
            "CREATE TABLE pg_class (a int); SELECT 1/0",
        ):
            with pytest.raises(psycopg2.Error) as caught:
                cursor.execute(statement)
            failures.append(failure(caught.value))
        return failures, list(connection.notices)

    failures, notices = doors.same(program)
    assert failures[0][2]["schema_name"] == "a schema"
    assert "its hint" in notices[0]


def test_an_asynchronous_connection(doors, opened):
    def program(door):
        connection = opened(door, async_=True)
        psycopg2.extras.wait_select(connection)
        cursor = connection.cursor()
        said = []
        for n in range(5):
            cursor.execute("SELECT g FROM generate_series(1, %s) g", [n * 1000])
            psycopg2.extras.wait_select(connection)
            said.append(len(cursor.fetchall()))
        return said

    assert doors.same(program) == [0, 1000, 2000, 3000, 4000]


def test_a_pool_shared_by_threads(doors):
    def program(door):
        pool = psycopg2.pool.ThreadedConnectionPool(2, 8, door.dsn)

        def work(n):
            connection = pool.getconn()
            try:
                with connection, connection.cursor() as cursor:
                    cursor.execute("INSERT INTO t VALUES (%s) RETURNING a * 2", [n])
                    return cursor.fetchone()[0]
            finally:
                pool.putconn(connection)

        first = pool.getconn()
        with first, first.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a int)")
        pool.putconn(first)
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(work, range(200)))
        pool.closeall()
        return answers

    assert doors.same(program) == [2 * n for n in range(200)]


def test_large_objects_and_large_values(doors, opened):
    def program(door):
        connection = opened(door, autocommit=False)
        cursor = connection.cursor()
        large = connection.lobject(0, "wb", 0)
        large.write(bytes(range(256)) * 8000)
        large.seek(1000)
        again = connection.lobject(large.oid, "rb")
        read = again.read()
        again.unlink()
        cursor.execute("SELECT %s", [psycopg2.Binary(b"\x00\xff" * 4_000_000)])
        [back] = cursor.fetchone()
        cursor.execute("SELECT repeat('y', 20000000)")
        connection.rollback()
        return hashlib.sha256(read).hexdigest(), hashlib.sha256(bytes(back)).hexdigest()

    read, back = doors.same(program)
    assert read == hashlib.sha256(bytes(range(256)) * 8000).hexdigest()
    assert back == hashlib.sha256(b"\x00\xff" * 4_000_000).hexdigest()


def test_savepoints_two_phases_and_levels(doors, opened):
    def program(door):
        connection = opened(door, autocommit=False)
        connection.set_session(isolation_level="SERIALIZABLE")
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (a int); SAVEPOINT s; INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg2.Error):
            cursor.execute("SELECT 1/0")
        said = [connection.get_transaction_status()]
        cursor.execute("ROLLBACK TO s; INSERT INTO t VALUES (2)")
        connection.commit()
        connection.tpc_begin(connection.xid(7, "global", "branch"))
        cursor.execute("INSERT INTO t VALUES (3)")
        connection.tpc_prepare()
        connection.tpc_commit()
        cursor.execute("SELECT a FROM t ORDER BY a")
        said += [cursor.fetchall(), connection.status, connection.get_transaction_status()]
        psycopg2.extras.execute_values(cursor, "INSERT INTO t VALUES %s", [(n,) for n in range(3000)], page_size=500)
        psycopg2.extras.execute_batch(cursor, "INSERT INTO t VALUES (%s)", [(n,) for n in range(500)])
        cursor.execute("SELECT count(*) FROM t")
        return [*said, cursor.fetchone()]

    assert doors.same(program)[-1] == (3502,)


def test_logical_replication(doors, opened):
    """CopyBoth: both sides speak at once, until the client ends the stream."""

    def program(door):
        connection = opened(door)
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (a int PRIMARY KEY, b text); CREATE PUBLICATION everything FOR ALL TABLES")
        stream = opened(door, connection_factory=psycopg2.extras.LogicalReplicationConnection).cursor()
        stream.create_replication_slot(f"clients_{door.name}", output_plugin="pgoutput")
        cursor.execute("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g")
        stream.start_replication(
            f"clients_{door.name}", options={"proto_version": "1", "publication_names": "everything"}, decode=False
        )
        kinds = []
        while kinds[-1:] != ["C"]:
            message = stream.read_message()
            if message is None:
                assert select.select([stream], [], [], 20)[0]
                continue
            kinds.append(message.payload[:1].decode())
            message.cursor.send_feedback(flush_lsn=message.data_start, reply=True)
        stream.connection.close()
        cursor.execute("SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE active")
        cursor.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        return kinds

    kinds = doors.same(program)
    assert kinds == ["B", "R", *["I"] * 2000, "C"]
