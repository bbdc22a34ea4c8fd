"""LISTEN on the NOTIFY door's channel through the PG port, as PostgreSQL itself has it (P1, P30)."""

import psycopg
import pytest

from tests.fixtures.waiting import wait_until
from tests.integration.gateway.port import RunningPort


@pytest.fixture(scope="module")
def port(postgres_server):
    dsn = postgres_server.create_database("listening")
    with RunningPort(dsn) as running:
        yield running
    postgres_server.drop_database("listening")


@pytest.fixture
def session(port):
    with psycopg.connect(port.dsn, autocommit=True) as connection:
        yield connection
    wait_until(lambda: not port.channel.listeners, "a session that left listens no more")


def listening(port, count):
    wait_until(lambda: len(port.channel.listeners) == count, lambda: port.channel.listeners)


def told(session, within_s=5.0, most=1):
    return [one.payload for one in session.notifies(timeout=within_s, stop_after=most)]


@pytest.mark.parametrize("statement", ["LISTEN pgr", 'LISTEN "pgr"', "listen PGR", "SELECT 1; LISTEN pgr; SELECT 2"])
def test_p30_a_session_that_listens_is_told(port, session, statement):
    session.execute(statement)
    listening(port, 1)
    port.call(lambda: port.channel.tell(b'{"seq":1}'))
    assert told(session) == ['{"seq":1}']


@pytest.mark.parametrize("ending", ["UNLISTEN pgr", "UNLISTEN *", "DISCARD ALL"])
def test_what_ends_it_in_postgresql_ends_it_here(port, session, ending):
    session.execute("LISTEN pgr")
    listening(port, 1)
    session.execute(ending)
    listening(port, 0)


def test_a_rolled_back_listen_never_was_and_a_committed_one_counts_from_its_commit(port, session):
    session.execute("BEGIN")
    session.execute("LISTEN pgr")
    session.execute("ROLLBACK")
    session.execute("LISTEN other")
    assert port.channel.listeners == {}
    session.execute("BEGIN")
    session.execute("LISTEN pgr")
    assert port.channel.listeners == {}
    session.execute("COMMIT")
    listening(port, 1)


def test_nothing_is_told_inside_of_a_transaction_and_everything_behind_it(port, session):
    session.execute("LISTEN pgr")
    listening(port, 1)
    with session.transaction():
        session.execute("SELECT 1")
        port.call(lambda: port.channel.tell(b"first"))
        port.call(lambda: port.channel.tell(b"second"))
        assert told(session, 0.5) == []
        assert session.execute("SELECT 2").fetchone() == (2,)
    assert told(session, most=2) == ["first", "second"]


def test_other_channels_pass_and_what_others_notify_on_ours_does_not(port, session):
    session.execute("LISTEN pgr; LISTEN other")
    listening(port, 1)
    session.execute("NOTIFY pgr, 'forged'; NOTIFY other, 'mine'")
    assert told(session) == ["mine"]
    assert told(session, 0.5) == []


def test_the_role_of_a_listener_is_looked_at_again_behind_set_role(port, session):
    session.execute("LISTEN pgr")
    listening(port, 1)
    session.execute("SET ROLE pg_monitor")
    wait_until(lambda: [one.principal[1] for one in port.channel.listeners] == ["pg_monitor"], "the role")
