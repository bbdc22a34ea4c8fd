"""Whoever ends, the others learn it: PostgreSQL, the gateway, and a client behind both (issue 5)."""

import psycopg
import pytest
from msgspec.structs import replace

from services.devstack.home import last_lines
from tests.clients.doors import Doors
from tests.fixtures.gateway import start_gateway
from tests.fixtures.postgres import start_postgres


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One that a test may stop."""
    with start_postgres(tmp_path_factory.mktemp("ends")) as running:
        yield running


@pytest.fixture
def gateway(server, kafka, tmp_path, topic_prefix):
    with start_gateway(tmp_path, dsn=server.dsn, kafka=kafka.bootstrap, prefix=topic_prefix) as running:
        yield running


def connect(door):
    return psycopg.connect(replace(door, database="postgres").dsn, autocommit=True)


def failure_of(connection):
    with pytest.raises(psycopg.OperationalError) as caught:
        connection.execute("SELECT 1")
    return caught.value


def test_postgres_stops_and_starts_again_behind_the_gateway(server, gateway):
    doors = Doors(server, gateway.port)
    sessions = [connect(door) for door in (doors.direct, doors.proxied)]
    server.stop()
    direct, proxied = map(failure_of, sessions)
    assert type(proxied) is type(direct) is psycopg.errors.AdminShutdown
    assert str(proxied) == str(direct)
    with pytest.raises(psycopg.OperationalError, match="FATAL:  PostgreSQL does not answer"):
        connect(doors.proxied)
    server.restart()
    with connect(doors.proxied) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)
    for session in sessions:
        session.close()


def test_a_gateway_that_is_told_to_end_says_so_to_its_clients(server, gateway):
    door = Doors(server, gateway.port).proxied
    with connect(door) as idle, connect(door) as within:
        within.execute("BEGIN; CREATE TABLE left_by_stop (a int)")
        assert gateway.stop() == 0, last_lines(gateway.log, 20)
        for session in (idle, within):
            said = failure_of(session)
            assert said.sqlstate == "57P01"
            assert "the gateway is shutting down" in str(said)
    with psycopg.connect(server.dsn_of("postgres")) as watcher:
        watcher.execute("SET lock_timeout = '20s'; CREATE TABLE left_by_stop (a int)")  # the open one was rolled back


def test_sessions_of_a_gateway_that_dies_end_at_the_server(server, gateway):
    door = Doors(server, gateway.port).proxied
    with connect(door) as session:
        session.execute("BEGIN; CREATE TABLE left_by_kill (a int)")
        gateway.kill()
        with psycopg.connect(server.dsn_of("postgres")) as watcher:
            watcher.execute("SET lock_timeout = '20s'; CREATE TABLE left_by_kill (a int)")
        assert isinstance(failure_of(session), psycopg.OperationalError)
