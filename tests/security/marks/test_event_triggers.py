"""No setting, no text and no lock that a login can choose steers our event triggers."""

import psycopg
import pytest
from psycopg import sql

from services.capture.outbound import watch
from tests.integration.watch.stream import Stream

SETTINGS = ("tidewire.inside", "tidewire.nursery", "tidewire.aside", "tidewire.caller")


def covered(connection: psycopg.Connection) -> set[str]:
    rows = connection.execute("select name::text from _tidewire.coverage where pools <> '{}'")
    return {name for (name,) in rows}


def tags(stream: Stream) -> list[str]:
    return [mark["tag"] for transaction in stream.read() for mark in transaction.marks]


@pytest.mark.parametrize("value", ["on", "postgres", "tidewire_08", "{16384}"])
@pytest.mark.parametrize("scope", ["session", "local"])
def test_no_setting_silences_the_marks_of_a_login(watched, schema_owner, value, scope):
    owner, stream = schema_owner(watched), Stream(watched)
    with owner.transaction():
        for name in SETTINGS:
            owner.execute("select set_config(%s, %s, %s)", [name, value, scope == "local"])
        owner.execute("create table own.t (a int)")
        owner.execute("alter table own.t add b int")
        owner.execute("drop table own.t")
    assert set(tags(stream)) == {"CREATE TABLE", "ALTER TABLE", "DROP TABLE"}


def test_a_setting_does_not_keep_a_new_table_out_of_the_publications(watched, schema_owner):
    owner = schema_owner(watched)
    for name in SETTINGS:
        owner.execute("select set_config(%s, 'on', false)", [name])
    owner.execute("create table own.t (a int)")
    assert covered(watched) == {"t"}


@pytest.mark.parametrize("inside", ["on", "off"])
@pytest.mark.parametrize("text", ["other set unlogged", 'u&"\\006F" set expression', "unlogged other_child"])
def test_text_in_a_command_moves_no_table_of_another_owner(watched, schema_owner, text, inside):
    watched.execute("create table public.other (a int primary key)")
    watched.execute("create table public.other_child () inherits (public.other)")
    before = watched.execute("select relid, pools from _tidewire.coverage order by 1").fetchall()
    owner = schema_owner(watched)
    owner.execute("create table own.t (a int)")
    owner.execute(f"set tidewire.inside = '{inside}'")
    owner.execute("begin")
    owner.execute(f"/* {text} */ alter table own.t add b int")
    owner.execute("commit")
    after = watched.execute("select relid, pools from _tidewire.coverage where schema = 'public' order by 1").fetchall()
    assert (before, covered(watched)) == (after, {"other", "other_child", "t"})


def test_a_setting_between_start_and_end_of_a_command_settles_no_table_of_another_owner(watched, schema_owner):
    """A rewrite runs the login's own code between our two triggers."""
    owner = schema_owner(watched)
    with watched.transaction():
        watched.execute("alter event trigger tidewire_command_ended disable")
        watched.execute("create table public.waiting (a int)")
        watched.execute("alter event trigger tidewire_command_ended enable always")
    (oid,) = watched.execute("select 'public.waiting'::regclass::oid").fetchone()
    owner.execute(
        sql.SQL(
            "create function own.steer(a int) returns int language plpgsql immutable as "
            "$$ begin perform set_config('tidewire.aside', {}, true); return a; end $$"
        ).format(sql.Literal(f"{{{oid}}}"))
    )
    owner.execute("create table own.t (a int)")
    owner.execute("insert into own.t values (1)")
    owner.execute("alter table own.t alter a type int using own.steer(a)")
    identity = watched.execute("select relreplident::text from pg_class where oid = %s", [oid]).fetchone()
    assert (identity, "waiting" in covered(watched)) == (("d",), False)


def test_the_owner_of_a_table_may_still_make_it_unlogged(watched, schema_owner):
    owner = schema_owner(watched)
    owner.execute("create table own.t (a int primary key)")
    owner.execute("alter table own.t set unlogged")
    unlogged = covered(watched)
    owner.execute("alter table own.t set logged")
    assert (unlogged, covered(watched)) == (set(), {"t"})


def test_a_member_of_the_owning_group_may_still_make_it_unlogged(watched, login, schema_owner):
    owner, member = schema_owner(watched), login(watched)
    owner.execute("create table own.t (a int primary key)")
    watched.execute(f"grant {owner.info.user} to {member.info.user}")
    member.execute("alter table own.t set unlogged")
    assert covered(watched) == set()


def test_the_superusers_own_text_does_not_look_like_ours(watched):
    stream = Stream(watched)
    watched.execute("do $$ begin execute 'create table t (a int) /* _tidewire.settle(oid,text) */'; end $$")
    assert (tags(stream), covered(watched)) == (["CREATE TABLE"], {"t"})


def advisory_locks_of(connection: psycopg.Connection) -> None:
    """Every advisory lock that Tidewire ever named, exclusively and for the session."""
    for name in ("tidewire", "tidewire.install", "tidewire.pool"):
        connection.execute("select pg_advisory_lock(hashtext(%s))", [name])
    connection.execute("select pg_advisory_lock(hashtext('tidewire.pool'), n) from generate_series(0, 31) n")


def test_a_login_that_holds_all_our_advisory_locks_delays_nothing(watched, login, schema_owner):
    owner, holder = schema_owner(watched), login(watched)
    advisory_locks_of(holder)
    owner.execute("create table own.t (a int)")
    at_once = covered(watched)
    installed = watch.install(watched, give_up_after_s=3.0)
    homes = watched.execute("select bool_and(pools = array[home::name]) from _tidewire.coverage").fetchone()
    assert (at_once, installed.pending, homes) == ({"t"}, 0, (True,))


def test_three_serializable_makers_and_movers_do_not_hinder_each_other(watched, connect):
    makers = [connect(watched.info.dsn, password=watched.info.password) for _ in range(3)]
    for number, maker in enumerate(makers):
        maker.execute(f"create table t{number} (a int primary key)")
    watch.sweep(watched)
    for number, maker in enumerate(makers):
        maker.execute("begin isolation level serializable")
        maker.execute(f"alter table t{number} set unlogged")
    for number, maker in enumerate(makers):
        maker.execute(f"create table later{number} (a int)")
        maker.execute(f"alter table t{number} add b int")
    for maker in reversed(makers):
        maker.execute("commit")
    assert (covered(watched), watch.sweep(watched)) == ({"later0", "later1", "later2"}, 0)


def test_one_transaction_takes_one_nursery(watched, schema_owner):
    owner = schema_owner(watched)
    with owner.transaction():
        for number in range(6):
            with owner.transaction():
                owner.execute(f"create table own.t{number} (a int)")
    rows = watched.execute("select distinct pools from _tidewire.coverage").fetchall()
    assert len(rows) == 1
