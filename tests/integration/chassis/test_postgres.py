"""What a failed connection to PostgreSQL is called, and that no password is in it."""

import psycopg2
import pytest

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect, failure
from services.devstack.ports import free_port
from tests.fixtures.postgres import start_postgres


def test_a_connection_has_the_services_name_and_commits_by_itself(database):
    with connect(Postgres(dsn=database), application_name="chassis-test") as connection:
        name = connection.execute("SHOW application_name").fetchone()
        assert (name, connection.autocommit) == (("chassis-test",), True)


@pytest.mark.parametrize(
    ("database", "user", "words"),
    [
        ("app", "postgres", "password authentication failed"),
        ("app", "nobody_here", "authentication failed"),
    ],
)
def test_a_wrong_password_is_refused_without_it(postgres_server, database, user, words):
    postgres = Postgres(dsn=postgres_server.dsn_of(database, user, "hunter2"))
    with pytest.raises(PostgresRefused, match=words) as refusal:
        connect(postgres, application_name="test")
    assert "hunter2" not in str(refusal.value)


def test_an_unknown_database_is_refused_with_its_name(postgres_server):
    postgres = Postgres(dsn=postgres_server.dsn_of("atlantis"))
    with pytest.raises(PostgresRefused, match=r'database "atlantis" does not exist.*TIDEWIRE_POSTGRES_DSN'):
        connect(postgres, application_name="test")


def test_nothing_listening_is_unreachable_and_may_be_retried():
    postgres = Postgres(dsn=f"postgresql://me:hunter2@127.0.0.1:{free_port()}/shop")
    with pytest.raises(PostgresUnreachable, match=r"does not answer \(.*refused.*\): start it") as outage:
        connect(postgres, application_name="test")
    assert "hunter2" not in str(outage.value)


def test_a_socket_that_is_not_there_yet_is_an_outage(tmp_path):
    with pytest.raises(PostgresUnreachable):
        connect(Postgres(dsn=f"host={tmp_path} dbname=shop"), application_name="test")


def test_an_unknown_host_is_an_outage():
    with pytest.raises(PostgresUnreachable, match=r"nowhere\.invalid"):
        connect(Postgres(dsn="postgresql://me@nowhere.invalid/shop"), application_name="test")


def test_too_many_connections_is_an_outage(tmp_path):
    with start_postgres(tmp_path, settings={"max_connections": "5", "max_wal_senders": "1"}) as server:
        postgres = Postgres(dsn=server.dsn)
        connections = []
        with pytest.raises(PostgresUnreachable, match="too many clients"):
            for _ in range(10):
                connections.append(connect(postgres, application_name="test"))
        for connection in connections:
            connection.close()


def test_the_other_drivers_words_are_understood_too(postgres_server):
    postgres = Postgres(dsn=postgres_server.dsn_of("atlantis"))
    with pytest.raises(psycopg2.OperationalError) as error:
        psycopg2.connect(postgres.dsn)
    assert isinstance(failure(postgres, str(error.value)), PostgresRefused)
