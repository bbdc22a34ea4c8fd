"""A server of each supported version for the whole run, and databases of one test."""

import itertools
import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from services.capture.outbound import watch
from tests.fixtures.postgres import VERSIONS, PostgresServer, start_postgres

_CHOSEN = [int(version) for version in os.environ.get("ORACLE_POSTGRES", "").split(",") if version] or VERSIONS[::-1]
_numbers = itertools.count()

Connect = Callable[..., psycopg.Connection]


@pytest.fixture(scope="session", params=_CHOSEN, ids=lambda version: f"pg{version}")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    settings = {"max_prepared_transactions": "10"}
    with start_postgres(tmp_path_factory.mktemp(f"pg{request.param}"), request.param, settings) as server:
        server.version = request.param
        yield server


@pytest.fixture
def new_database(server: PostgresServer) -> Iterator[Callable[[], str]]:
    made: list[str] = []

    def new_database() -> str:
        made.append(f"watch_{next(_numbers)}")
        return server.create_database(made[-1])

    yield new_database
    for name in made:
        with psycopg.connect(server.dsn_of(name), autocommit=True) as connection:
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                "where database = current_database()"
            )
        server.drop_database(name)


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[psycopg.Connection] = []

    def connect(dsn: str, **settings: object) -> psycopg.Connection:
        opened.append(psycopg.connect(dsn, autocommit=True, **settings))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def plain(new_database: Callable[[], str], connect: Connect) -> psycopg.Connection:
    """A connection to a database in which nothing is installed."""
    return connect(new_database())


@pytest.fixture
def watched(new_database: Callable[[], str], connect: Connect) -> psycopg.Connection:
    """A connection to a database that is being watched."""
    connection = connect(new_database())
    watch.install(connection)
    return connection
