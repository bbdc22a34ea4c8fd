"""One Spark and one table of edge values for all tests of functions."""

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from services.recompute.outbound.spark.session import Spark
from tests.fixtures.postgres import PostgresServer
from tests.integration.recompute.functions.edges import Edges


@pytest.fixture(scope="module")
def edges(postgres_server: PostgresServer) -> Iterator[Edges]:
    name = f"functions_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server.create_database(name)) as connection:
        yield Edges(connection)
    postgres_server.drop_database(name)


@pytest.fixture(scope="package")
def spark() -> Iterator[Spark]:
    session = Spark(master="local[2]", driver_memory="1g", java_options="", incremental=True)
    yield session
    session.stop()
