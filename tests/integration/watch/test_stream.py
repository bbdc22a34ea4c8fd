"""The replication stream has every row change of every ordinary table, and a mark for each DDL in its transaction."""

import pytest

from services.capture.outbound import watch
from tests.integration.watch.stream import Stream

# What makes the table, and whether updates and deletes of its rows can be published.
TABLES = {
    "keyed": ("create table public.it (a int primary key, b int)", True),
    "keyless": ("create table public.it (a int, b int)", True),
    "deferrable key": ("create table public.it (a int primary key deferrable, b int)", True),
    "created as": ("create table public.it as select 1 as a, 1 as b where false", True),
    "selected into": ("select 1 as a, 1 as b into public.it where false", True),
    "inherited": ("create table public.up (a int); create table public.it (b int) inherits (public.up)", True),
    "leaf": ("create table up (a int, b int) partition by list (a); create table it partition of up default", True),
    "attached": (
        "create table up (a int, b int) partition by list (a); create table it (a int, b int); "
        "alter table up attach partition it default",
        True,
    ),
    "made logged": ("create unlogged table public.it (a int, b int); alter table public.it set logged", True),
    "stored column": ("create table public.it (a int, b int, c int generated always as (a + 1) stored)", True),
    "stored key": ("create table public.it (a int, b int, c int generated always as (a + 1) stored primary key)", True),
    "key dropped": ("create table it (a int primary key, b int); alter table it drop constraint it_pkey", True),
    "index dropped": (
        "create table it (a int not null, b int); create unique index i on it (a); "
        "alter table it replica identity using index i; drop index i",
        True,
    ),
    "virtual, keyed": ("create table it (a int primary key, b int, c int generated always as (a + 1) virtual)", True),
    "virtual, unique": (
        "create table it (a int not null unique, b int, c int generated always as (a + 1) virtual)",
        False,
    ),
    "virtual, keyless": ("create table it (a int, b int, c int generated always as (a + 1) virtual)", False),
}


def tables_for(server) -> dict:
    return {name: made for name, made in TABLES.items() if server.version >= 18 or "virtual" not in name}


@pytest.mark.parametrize("before", [True, False], ids=["made before", "made after"])
def test_every_change_of_every_kind_of_table_is_in_the_stream(server, plain, before):
    if not before:
        watch.install(plain)
    seen, expected = {}, {}
    for name, (making, published) in tables_for(server).items():
        plain.execute(making)
        if before:
            watch.install(plain)
        stream = Stream(plain)
        plain.execute("insert into it (a, b) values (1, 1)")
        plain.execute("update it set b = 2")
        plain.execute("delete from it")
        plain.execute("truncate it")
        seen[name] = [row for transaction in stream.read() for row in transaction.rows]
        operations = ["insert", "update", "delete", "truncate"] if published else ["insert", "truncate"]
        expected[name] = [(operation, "public.it") for operation in operations]
        plain.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()"
        )
        plain.execute("drop table it")
        plain.execute("drop table if exists up")
    assert seen == expected


def test_rows_of_create_table_as_are_in_the_stream(watched):
    stream = Stream(watched)
    watched.execute('create schema "Neu"')
    watched.execute('create table "Neu"."Größe" as select generate_series(1, 3) as a')
    assert [t.rows for t in stream.read() if t.rows] == [[("insert", "Neu.Größe")] * 3]


# Each in a transaction of its own, with a name that its mark must have.
DDL = (
    ("alter table t add column d int default 7", ("table", "t")),
    ("alter table t drop column b", ("table column", "t")),
    ('alter table t rename column c to "Ünd"', ("table column", "t")),
    ("alter table t alter a type text using a::text || 'x'", ("table", "t")),
    ("alter table t rename to renamed", ("table", "renamed")),
    ("alter table renamed set schema other", ("table", "renamed")),
    ("drop table other.renamed", ("table", "renamed")),
    ("alter table p attach partition leaf for values in (1)", ("table", "leaf")),
    ("alter table p add column z int", ("table", "leaf")),
    ("alter table p detach partition leaf", ("table", "p")),
    ("alter table p attach partition leaf for values in (1)", ("table", "p")),
    ("alter type mood rename value 'ok' to 'fine'", ("type", "mood")),
    ("drop schema other cascade", ("schema", "other")),
    ("drop view v", ("view", "v")),
)


def test_each_ddl_is_marked_in_its_own_transaction(watched):
    watched.execute("create schema other")
    watched.execute("create type mood as enum ('ok')")
    watched.execute("create view v as select 1")
    watched.execute("create table t (a int primary key, b int, c int)")
    watched.execute("create table p (a int, b int) partition by list (a)")
    watched.execute("create table leaf (a int, b int)")
    stream = Stream(watched)
    expected = {}
    for command, named in DDL:
        with watched.transaction():
            watched.execute(command)
            (xid,) = watched.execute("select pg_current_xact_id()::text::bigint").fetchone()
        expected[xid] = named
    marked = {
        transaction.xid: {(o["type"], o["name"]) for mark in transaction.marks for o in mark["objects"]}
        for transaction in stream.read()
    }
    assert {xid: named for xid, named in expected.items() if named not in marked.get(xid, ())} == {}


def test_detaching_concurrently_is_marked(watched):
    watched.execute("create table p (a int) partition by list (a)")
    watched.execute("create table leaf partition of p for values in (1)")
    stream = Stream(watched)
    watched.execute("alter table p detach partition leaf concurrently")
    marks = [mark for transaction in stream.read() for mark in transaction.marks]
    assert [(mark["tag"], {o["name"] for o in mark["objects"]}) for mark in marks] == [("ALTER TABLE", {"p"})]


def test_temporary_objects_leave_no_mark(watched):
    stream = Stream(watched)
    watched.execute("create temp table t (a int primary key)")
    watched.execute("alter table t add column b int")
    watched.execute("create index on t (b)")
    watched.execute("drop table t")
    assert [transaction for transaction in stream.read() if transaction.marks] == []


def test_rolled_back_ddl_leaves_no_mark(watched):
    stream = Stream(watched)
    watched.execute("begin; create table t (a int); rollback")
    assert stream.read() == []


def test_an_untracked_table_shows_no_updates_until_it_is_tracked_again(watched):
    watched.execute("create table t (a int)")
    watched.execute("select _tidewire.untrack('t')")
    stream = Stream(watched)
    watched.execute("insert into t values (1)")
    watched.execute("update t set a = 2")
    watched.execute("select _tidewire.track('t')")
    watched.execute("update t set a = 3")
    rows = [row for transaction in stream.read() for row in transaction.rows]
    assert rows == [("insert", "public.t"), ("update", "public.t")]


def test_partitions_of_an_untracked_table_are_untracked_when_they_come(watched):
    watched.execute("create table p (a int primary key) partition by list (a)")
    watched.execute("create table p1 partition of p for values in (1)")
    watched.execute("select _tidewire.untrack('p')")
    watched.execute("create table p2 partition of p for values in (2)")
    untracked = watched.execute("select name::text from _tidewire.untracked order by 1").fetchall()
    watched.execute("select _tidewire.track('p')")
    after = watched.execute("select name::text from _tidewire.untracked order by 1").fetchall()
    assert (untracked, after, watch.sweep(watched)) == ([("p1",), ("p2",)], [], 0)


def test_a_barrier_arrives(watched):
    watched.execute("select pg_create_logical_replication_slot(current_database(), 'pgoutput')")
    watched.execute("select _tidewire.barrier('here')")
    rows = watched.execute(
        "select data from pg_logical_slot_get_binary_changes(current_database(), null, null, 'proto_version', '1', "
        "'messages', 'true', 'publication_names', 'tidewire')"
    )
    assert any(b"barrier" in bytes(data) and b"here" in bytes(data) for (data,) in rows)
