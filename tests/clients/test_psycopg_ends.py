"""Sessions of psycopg 3 that end on either side, through the gateway as directly."""

import os
import socket
import struct
import threading

import psycopg
import pytest

from tests.clients.test_psycopg import failure


def test_a_session_that_the_server_ends(doors):
    def program(door):
        with psycopg.connect(door.dsn, autocommit=True) as connection:
            with psycopg.connect(door.dsn, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
            with pytest.raises(psycopg.OperationalError) as caught:
                connection.execute("SELECT 1")
            return failure(caught.value), connection.broken

    assert doors.same(program)[0][0] == "AdminShutdown"


def test_a_client_that_disappears_ends_its_session_at_the_server(doors):
    """A crash of the client: no Terminate, in the midst of a transaction that holds a lock."""

    def program(door):
        with psycopg.connect(door.dsn, autocommit=True) as watcher:
            watcher.execute("CREATE TABLE t (a int)")
            lost = psycopg.connect(door.dsn)
            lost.execute("LOCK TABLE t")
            pid = lost.info.backend_pid
            threading.Thread(target=_cut, args=(lost,)).start()
            watcher.execute("SET lock_timeout = '20s'; INSERT INTO t VALUES (1)")
            locks = watcher.execute("SELECT count(*) FROM pg_locks WHERE pid = %s AND locktype = 'relation'", [pid])
            return locks.fetchone(), watcher.execute("SELECT count(*) FROM t").fetchone()

    assert doors.same(program) == ((0,), (1,))


def _cut(connection):
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.shutdown(socket.SHUT_RDWR)
    connection.close()
