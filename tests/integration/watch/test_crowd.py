"""Many connections make, bend and fill tables at once, some in long transactions: none fails, none waits for us."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import conninfo

from services.capture.outbound import watch

WORKERS, ROUNDS = 8, 12
# lock_timeout of the triggers and the sweep, and what a busy machine of two cores adds.
LONGEST_WAIT_S = 0.1 + 2.0
SHARED = ("shared_keyed", "shared_keyless")


def program(server, worker: int, turn: int) -> Iterator[str]:
    """What one worker does in one round: tables of its own under names of its own, rows of tables that all share."""
    t = f'"w{worker} r{turn} ä"'
    kinds = [
        f"create table {t} (a int primary key, b int)",
        f"create table {t} (a int, b int)",
        f"create table {t} (a int primary key deferrable, b int)",
        f"create table {t} (a int, b int, c int generated always as (a + 1) stored)",
        f"create table {t} as select 0 as a, 0 as b",
        f"create unlogged table {t} (a int, b int)",
        f"create temp table {t} (a int, b int)",
        f"create table {t} (b int) inherits (shared_parent)",
    ]
    if server.version >= 18:
        kinds.append(f"create table {t} (a int, b int, c int generated always as (a + 1) virtual)")
        kinds.append(f"create table {t} (a int primary key, b int, c int generated always as (a + 1) virtual)")
    kind = kinds[(worker + turn) % len(kinds)]
    in_block = (worker + turn) % 3 == 0
    writes = (
        f"insert into {t} (a, b) values ({worker}, {turn}), ({worker + 100}, {turn})",
        f"update {t} set b = b + 1",
        f"delete from {t} where a in ({worker}, {worker + 100})",
        *(f"insert into {s} (a, b) values ({worker * 1000 + turn}, 1)" for s in SHARED),
        *(f"update {s} set b = b + 1 where a = {worker * 1000 + turn}" for s in SHARED),
        *(f"delete from {s} where a = {worker * 1000 + turn}" for s in SHARED),
    )
    yield from ("begin", kind, *writes, "commit") if in_block else (kind, *writes)
    yield from writes
    if "primary key" in kind and "virtual" not in kind:
        yield f'alter table {t} drop constraint "w{worker} r{turn} ä_pkey"'
        yield from writes
    if "temp" not in kind:
        yield f"alter table {t} set unlogged"
        yield from writes
        yield f"alter table {t} set logged"
        yield from writes
    yield f"truncate {t}"
    yield f"drop table {t}"


def work(server, dsn: str, worker: int, seconds: list[tuple[float, str]]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set client_min_messages = error")
        for turn in range(ROUNDS):
            for command in program(server, worker, turn):
                start = time.monotonic()
                connection.execute(command)
                seconds.append((time.monotonic() - start, command))


def sweep_until(stopped: threading.Event, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        watch.install(connection)
        while not stopped.wait(random.uniform(0, 0.05)):
            watch.sweep(connection)


def test_no_statement_of_a_crowd_fails_or_waits_longer_than_the_lock_timeout(server, plain, connect):
    dsn = conninfo.make_conninfo(plain.info.dsn, password=plain.info.password)
    plain.execute("create table shared_parent (a int)")
    plain.execute("create table shared_keyed (a int primary key, b int)")
    plain.execute("create table shared_keyless (a int, b int)")
    # Long transactions: one keeps a table from being adopted, two hold what the triggers took for a new table.
    long = [connect(dsn) for _ in range(3)]
    long[0].execute("begin; insert into shared_keyless values (-1, 0)")
    seconds: list[tuple[float, str]] = []
    stopped = threading.Event()
    with ThreadPoolExecutor(WORKERS + 1) as pool:
        sweeping = pool.submit(sweep_until, stopped, dsn)
        first = [pool.submit(work, server, dsn, worker, seconds) for worker in range(WORKERS // 2)]
        for number, holder in enumerate(long[1:]):
            holder.execute(f"begin; create table long_{number} (a int, b int); insert into long_{number} values (1, 1)")
        second = [pool.submit(work, server, dsn, worker, seconds) for worker in range(WORKERS // 2, WORKERS)]
        try:
            for future in (*first, *second):
                future.result()
            for number, holder in enumerate(long[1:]):
                holder.execute(f"update long_{number} set b = 2")
            for holder in long:
                holder.execute("commit")
        finally:
            stopped.set()
        sweeping.result()
    assert max(seconds) < (LONGEST_WAIT_S, "")
    assert watch.sweep(plain) == 0
    covered = plain.execute(
        "select name::text, pools = array[home::name] from _tidewire.coverage where persistence = 'p' order by 1"
    )
    names = ("long_0", "long_1", "shared_keyed", "shared_keyless", "shared_parent")
    assert covered.fetchall() == [(name, True) for name in names]


def test_a_table_can_become_unlogged_while_others_hold_what_they_made(watched, connect):
    dsn = conninfo.make_conninfo(watched.info.dsn, password=watched.info.password)
    watched.execute("create table swept (a int primary key)")
    watch.sweep(watched)
    watched.execute("create table fresh (a int primary key)")
    for number in range(20):
        connect(dsn).execute(f"begin; create table held_{number} (a int)")
    watched.execute("alter table swept set unlogged")
    watched.execute("alter table fresh set unlogged")
    unlogged = "relpersistence = 'u' and relkind = 'r' and relnamespace = 'public'::regnamespace"
    kept = watched.execute(f"select relname::text from pg_class where {unlogged} order by 1")
    assert kept.fetchall() == [("fresh",), ("swept",)]
