"""One PostgreSQL and one gateway before it, for programs that must not notice the difference."""

from collections.abc import Iterator

import pytest

from tests.clients.doors import Doors
from tests.fixtures.gateway import GatewayProcess, start_gateway
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.postgres import PostgresServer, start_postgres

# Autovacuum would change plans and estimates between the two runs of a program.
SETTINGS = {"autovacuum": "off", "max_prepared_transactions": "4", "lc_messages": "C"}


@pytest.fixture(scope="session")
def clients_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with start_postgres(tmp_path_factory.mktemp("clients"), settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def gateway(
    clients_server: PostgresServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    with start_gateway(directory, dsn=clients_server.dsn, kafka=kafka.bootstrap, prefix="clients.") as process:
        yield process


@pytest.fixture(scope="session")
def doors(clients_server: PostgresServer, gateway: GatewayProcess) -> Doors:
    """PostgreSQL's own door and the gateway's."""
    return Doors(clients_server, gateway.port)
