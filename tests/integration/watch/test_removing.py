"""After uninstalling, a database is what it would be if it had never been watched."""

import subprocess

import psycopg
import pytest
from psycopg import conninfo

from services.capture.outbound import watch
from services.capture.outbound.watch_errors import TablesBusy
from services.capture.outbound.watch_removal import uninstall

BEFORE = """
    create table keyed (a int primary key, b int);
    create table keyless (a int, b text);
    create table chosen_full (a int primary key, b int);
    alter table chosen_full replica identity full;
    create table chosen_index (a int not null, b int);
    create unique index chosen on chosen_index (a);
    alter table chosen_index replica identity using index chosen;
    create table chosen_nothing (a int primary key);
    alter table chosen_nothing replica identity nothing;
    create table parted (a int, b int) partition by list (a);
    create table leaf partition of parted for values in (1);
    create unlogged table unlogged (a int);
    create publication theirs for table keyed;
    create schema "Sch ö";
    create table "Sch ö"."T ""q" (a int);
"""
AFTER = (
    "create table later (a int)",
    "create table keyed_later (a int primary key, b int)",
    "alter table keyed drop constraint keyed_pkey",
    "alter table keyless add primary key (a)",
    "alter table unlogged set logged",
    "alter table keyed_later set unlogged",
    "create table leaf2 partition of parted default",
    "create table copied as select 1 as a",
    "alter table later replica identity nothing",
    "drop publication theirs",
    "drop table copied",
)


def dump(server, connection: psycopg.Connection) -> str:
    program = [str(server.bin / "pg_dump"), "--schema-only", server.dsn_of(connection.info.dbname)]
    text = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    return "\n".join(line for line in text.splitlines() if not line.startswith(("--", "\\")))


def slots(connection: psycopg.Connection) -> list[tuple]:
    query = "select slot_name from pg_replication_slots where database = current_database()"
    return connection.execute(query).fetchall()


def test_uninstalling_leaves_the_database_as_it_was(server, plain):
    plain.execute(BEFORE)
    before = dump(server, plain)
    watch.install(plain)
    plain.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [f"slot_{plain.info.dbname}"])
    plain.execute("select _tidewire.untrack('leaf')")
    during = dump(server, plain)
    uninstall(plain, f"slot_{plain.info.dbname}")
    assert during != before
    assert (dump(server, plain), slots(plain)) == (before, [])


@pytest.mark.parametrize("swept", [True, False])
def test_uninstalling_leaves_what_the_users_own_commands_made(server, plain, watched, swept):
    for connection in (plain, watched):
        connection.execute(BEFORE)
        for command in AFTER:
            connection.execute(command)
            if swept and connection is watched:
                watch.sweep(watched)
    uninstall(watched, "none")
    assert dump(server, watched) == dump(server, plain)


def test_uninstalling_what_is_not_or_half_installed_is_no_error(server, plain):
    before = dump(server, plain)
    nothing = uninstall(plain, "none")
    watch.install(plain)
    plain.execute(
        "drop event trigger tidewire_command_ended; drop publication tidewire_07; drop view _tidewire.untracked"
    )
    plain.execute("drop table _tidewire.identities cascade")
    uninstall(plain, "none")
    assert (nothing, dump(server, plain)) == ([], before)


def test_uninstalling_ends_the_reader_of_the_slot(server, watched):
    slot = f"slot_{watched.info.dbname}"
    watched.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    options = ["-o", "proto_version=1", "-o", "publication_names=tidewire", "-f", "-", "--no-loop", "--start"]
    program = [str(server.bin / "pg_recvlogical"), "-d", server.dsn_of(watched.info.dbname), "-S", slot, *options]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as reader:
        active = "select active from pg_replication_slots where slot_name = %s"
        while watched.execute(active, [slot]).fetchone() != (True,):
            assert reader.poll() is None
        done = uninstall(watched, slot)
        reader.wait(timeout=20)
    assert (done[0], slots(watched)) == (f"dropped replication slot {slot}", [])


def test_a_locked_table_stops_uninstalling_with_a_name_and_it_can_go_on_later(server, plain, connect):
    plain.execute("create table keyless (a int)")
    before = dump(server, plain)
    watch.install(plain)
    holder = connect(conninfo.make_conninfo(plain.info.dsn, password=plain.info.password))
    holder.execute("begin; insert into keyless values (1)")
    with pytest.raises(TablesBusy, match=r"public\.keyless"):
        uninstall(plain, "none", lock_timeout_ms=50, give_up_after_s=0.2)
    holder.execute("update keyless set a = 2; commit")
    uninstall(plain, "none")
    assert dump(server, plain) == before
