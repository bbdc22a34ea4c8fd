"""The gateway passes on as fast as the slower side takes, and keeps nothing but a bounded piece (issue 5)."""

import os
import select
import socket
import struct
import time
from contextlib import contextmanager

import psutil
import psycopg
from msgspec.structs import replace
from psycopg import pq

# What may lie in the gateway for one session: its own buffers, and what the kernel's sockets hold is not ours.
BOUND_BYTES = 24 * 1024 * 1024
STATE = "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = %s"


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def wait_for(watcher, pid, event, within_s=60.0):
    """Until the session has waited for one thing at twenty looks in a row."""
    deadline, seen = time.monotonic() + within_s, 0
    while seen < 20:
        found = watcher.execute(STATE, [pid]).fetchone()
        seen = seen + 1 if found == (event,) else 0
        assert time.monotonic() < deadline, f"the session waits for {found}, not for {event}"
        time.sleep(0.05)


def resident(gateway):
    return psutil.Process(gateway.pid).memory_info().rss


@contextmanager
def session(door):
    """A session's socket after libpq has logged in, and the server's process behind it."""
    connection = pq.PGconn.connect(in_postgres(door).encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    try:
        with socket.socket(fileno=os.dup(connection.socket)) as wire:
            wire.setblocking(True)
            yield wire, connection.backend_pid
    finally:
        connection.finish()


def in_postgres(door):
    return replace(door, database="postgres").dsn


def test_a_client_that_does_not_read_stops_postgres_and_costs_a_bounded_buffer(doors, gateway, clients_server):
    before = resident(gateway)
    with session(doors.proxied) as (wire, pid), psycopg.connect(clients_server.dsn, autocommit=True) as watcher:
        wire.sendall(message(b"Q", b"SELECT repeat('x', 1000) FROM generate_series(1, 400000)\0"))
        wait_for(watcher, pid, "Client ClientWrite")
        assert resident(gateway) - before < BOUND_BYTES
        # Others are served meanwhile, and this one gets all of it when it reads.
        with psycopg.connect(in_postgres(doors.proxied)) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        count, last = 0, b""
        while not last.endswith(b"Z\0\0\0\5I"):
            assert select.select([wire], [], [], 30)[0]
            data = wire.recv(1 << 20)
            assert data
            count, last = count + len(data), (last + data)[-6:]
        assert count > 400_000_000
        assert resident(gateway) - before < BOUND_BYTES


def test_a_server_that_does_not_take_stops_the_client_and_costs_a_bounded_buffer(doors, gateway, clients_server):
    with psycopg.connect(clients_server.dsn_of("postgres"), autocommit=True) as holder:
        holder.execute(
            "CREATE TABLE slow (a text); CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;"
            "CREATE TRIGGER slow BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION wait();"
            "SELECT pg_advisory_lock(42)"
        )
        before = resident(gateway)
        with session(doors.proxied) as (wire, pid):
            wire.sendall(message(b"Q", b"COPY slow FROM STDIN\0"))
            assert wire.recv(1) == b"G"
            wire.setblocking(False)
            sent, row = 0, message(b"d", b"y" * 65_000 + b"\n")
            pending = b""
            while select.select([], [wire], [], 2)[1] and sent < 1_000_000_000:
                pending = pending or row
                taken = wire.send(pending)
                pending, sent = pending[taken:], sent + taken
            assert sent < 100_000_000
            wait_for(holder, pid, "Lock advisory")
            assert resident(gateway) - before < BOUND_BYTES
            holder.execute("SELECT pg_advisory_unlock(42)")
            wire.setblocking(True)
            wire.sendall(pending + message(b"c"))
            heard = b""
            while not heard.endswith(b"Z\0\0\0\5I"):
                heard += wire.recv(65536)
            assert b"COPY 0\0" in heard  # the trigger kept none
        holder.execute("DROP TABLE slow; DROP FUNCTION wait()")
