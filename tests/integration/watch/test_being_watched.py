"""Being watched never breaks a statement: a watched database answers as an unwatched one does."""

import os

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.pq import TransactionStatus

from services.capture.outbound import watch
from tests.integration.watch.commands import commands

EXAMPLES = int(os.environ.get("TIDEWIRE_TEST_EXAMPLES", "60"))


def answer(connection: psycopg.Connection, command: str) -> str:
    try:
        return connection.execute(command).statusmessage or ""
    except psycopg.Error as refusal:
        return f"{refusal.sqlstate} {refusal.diag.message_primary}"


def clear(connection: psycopg.Connection) -> None:
    connection.execute("rollback")
    connection.execute("discard temp")
    connection.execute("drop publication if exists theirs")
    connection.execute("drop schema if exists public, other cascade")
    connection.execute("create schema public")
    connection.execute("create schema other")


def test_a_watched_database_answers_as_an_unwatched_one(server, connect):
    watched, plain = connect(server.create_database()), connect(server.create_database())
    sweeper = connect(watched.info.dsn)
    for connection in (watched, plain):
        connection.execute("set client_min_messages = error")
    watch.install(sweeper)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def same(data: st.DataObject) -> None:
        clear(watched)
        clear(plain)
        for command in data.draw(commands(server.version)):
            if command == "sweep":
                watch.sweep(sweeper)
            else:
                assert answer(watched, command) == answer(plain, command), command
                if watched.info.transaction_status == TransactionStatus.INERROR and not command.startswith("rollback"):
                    assert answer(watched, "rollback") == answer(plain, "rollback")

    same()
