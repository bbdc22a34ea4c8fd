"""A role that changes its own tables as fast as it can does not hold up the streams of others (finding 10)."""

import queue
import socket
import threading
import time
from contextlib import contextmanager, suppress
from http.client import HTTPException

import psycopg
import pytest

STREAMS = 100
ROWS = 3
WITHIN_S = 20


# About a hundred transactions a second, run by PostgreSQL itself so that they do not wait for this process.
LOOP = """
DO $$ BEGIN
    LOOP
        EXECUTE '{statement}'; PERFORM nextval('{count}'); COMMIT; PERFORM pg_sleep(0.005);
    END LOOP;
END $$
"""


@contextmanager
def flood(cdc, statement):
    """The statement in a loop, by a role of its own, in which `{}` is a table of its; gives how often it ran."""
    role = cdc.role("GRANT CREATE ON SCHEMA public TO {}")
    table, count = f"own_{role}", f"count_{role}"

    def ran():
        return cdc.sql(f"SELECT last_value FROM {count}")[0][0]

    def run():
        with suppress(psycopg.errors.QueryCanceled):
            connection.execute(LOOP.format(statement=statement.format(table), count=count))

    with psycopg.connect(cdc.captured.dsn, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}")
        connection.execute(f"CREATE TABLE {table} (id int); CREATE SEQUENCE {count}")
        thread = threading.Thread(target=run)
        thread.start()
        try:
            deadline = time.monotonic() + WITHIN_S
            while ran() < 10:
                assert time.monotonic() < deadline
            yield ran
        finally:
            connection.cancel_safe()
            thread.join()


@pytest.mark.parametrize("statement", ["GRANT SELECT ON {} TO PUBLIC", "REVOKE SELECT ON {} FROM PUBLIC"])
def test_streams_and_polls_go_on_under_a_flood_of_ddl(cdc, statement):
    table = cdc.table("id int PRIMARY KEY, n int")
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user, told = cdc.user(role), queue.Queue()
    ranged = {"pk_range": {"lower_bound": {"t": "i64", "v": 0}}}
    subs = [user.result("cdc.subscribe_table", db=cdc.database, table=table, **ranged) for _ in range(STREAMS)]
    streams = [user.sse(sub["sub_id"]) for sub in subs]
    threads = [threading.Thread(target=read, args=[stream, told]) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        with flood(cdc, statement) as ran:
            before = ran()
            for number in range(ROWS):
                cdc.sql(f"INSERT INTO {table} VALUES ({number}, 0)")
                assert {told.get(timeout=WITHIN_S) for _ in streams} == {"insert"}
                found = user.result("cdc.poll", sub_id=subs[0]["sub_id"], from_offset=subs[0]["offset"])
                assert len(found["events"]) == number + 1
                assert "fenced" not in found
            assert ran() > before
            # Who loses the right meanwhile is told nothing more.
            cdc.sql(f"REVOKE SELECT ON {table} FROM {role}")
            assert {told.get(timeout=WITHIN_S) for _ in streams} == {"error"}
    finally:
        for stream in streams:
            if stream.socket is not None:
                stream.socket.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def read(stream, told):
    """Until it ends, or is ended."""
    with suppress(OSError, HTTPException), stream:
        while (event := stream.next()) is not None:
            told.put(event.name)
