import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.postgres import PostgresServer
from tests.integration.routes.stack import RoutesStack


@pytest.fixture(scope="session")
def routes_stack(
    postgres_server: PostgresServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RoutesStack]:
    name = f"routes_{secrets.token_hex(6)}"
    made = RoutesStack(postgres_server.create_database(name), kafka.bootstrap, f"{name}.", _folder(tmp_path_factory))
    made.db.execute("create schema app")
    yield made
    made.end()
    postgres_server.drop_database(name)


@pytest.fixture
def stack(routes_stack: RoutesStack) -> Iterator[RoutesStack]:
    """Capture and a worker of the routes, shared; each test has the table app.orders and the topic app.t anew."""
    routes_stack.db.execute("drop table if exists app.orders")
    routes_stack.db.execute("create table app.orders (id int primary key, total int, note text)")
    yield routes_stack
    routes_stack.drop_all()


def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routes")
