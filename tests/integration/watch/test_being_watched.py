"""Being watched never breaks a statement: a watched database answers as an unwatched one does."""

import os

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.pq import TransactionStatus

from services.capture.outbound import watch
from tests.integration.watch.commands import commands

pytestmark = pytest.mark.oracle
EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "30"))


def answer(connection: psycopg.Connection, command: str) -> str:
    try:
        return connection.execute(command).statusmessage or ""
    except psycopg.Error as refusal:
        return f"{refusal.sqlstate} {refusal.diag.message_primary}"


def clear(connection: psycopg.Connection) -> None:
    connection.execute("rollback")
    for (name,) in connection.execute(
        "select gid from pg_prepared_xacts where database = current_database()"
    ).fetchall():
        connection.execute(f"rollback prepared '{name}'")
    connection.execute("discard temp")
    connection.execute("drop publication if exists theirs")
    connection.execute("drop schema if exists public, other cascade")
    connection.execute("create schema public")
    connection.execute("create schema other")


def test_a_watched_database_answers_as_an_unwatched_one(server, watched, plain, connect):
    sweeper = connect(watched.info.dsn, password=watched.info.password)
    for connection in (watched, plain):
        connection.execute("set client_min_messages = error")
        connection.execute("set lock_timeout = '300ms'")

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        clear(watched)
        clear(plain)
        for command in data.draw(commands(server.version)):
            if command == "sweep":
                watch.sweep(sweeper)
                continue
            prepared = f"{command} '{{}}'" if command.endswith(("prepared", "prepare transaction")) else command
            answers = [answer(c, prepared.format(c.info.dbname)).replace(c.info.dbname, "") for c in (watched, plain)]
            assert answers[0] == answers[1], command
            if watched.info.transaction_status == TransactionStatus.INERROR and not command.startswith("rollback"):
                assert answer(watched, "rollback") == answer(plain, "rollback")

    same()
    watched.execute("rollback")
    plain.execute("rollback")
    clear(watched)
    clear(plain)


def test_no_index_of_the_user_is_bound_by_us_and_one_that_he_bound_may_go(server, watched):
    generated = "c int generated always as (a + 1) " + ("virtual" if server.version >= 18 else "stored")
    for command in (
        f"create table t (a int not null unique, b int, {generated})",
        "alter table t alter a drop not null",
        "alter table t alter a set not null",
        "create unique index i on t (a)",
        "alter table t replica identity using index i",
        "drop index i",
        "update t set b = b",
        "delete from t",
        "drop table t",
        f"create table t (a int not null, b int, {generated})",
        "create unique index u on t (a)",
        "drop index concurrently u",
        "update t set b = b",
    ):
        watched.execute(command)
    bound = "select count(*) from pg_index where indrelid = 't'::regclass and indisreplident"
    identity = "select relreplident from pg_class where oid = 't'::regclass"
    assert watched.execute(bound).fetchone()[0] == 0
    assert watched.execute(identity).fetchone()[0] != "i"
