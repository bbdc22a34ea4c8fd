"""A database with everything that a query may read, on the current PostgreSQL and on the oldest one that is here."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from proto.tidewire.v1.commands_pb2 import Parameter, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.devstack.postgres import MAJOR
from services.recompute.core.catalog import Described
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.fixtures.postgres import VERSIONS, PostgresServer, start_postgres

SHOP = Path(__file__).parent / "shop.sql"
Describe = Callable[..., Described]


@pytest.fixture(scope="package", params=sorted({VERSIONS[0], MAJOR}))
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of the database, as superuser."""
    if request.param == MAJOR:
        yield _made(request.getfixturevalue("postgres_server"))
    else:
        with start_postgres(tmp_path_factory.mktemp(f"postgres-{request.param}"), request.param) as server:
            yield _made(server)


def _made(server: PostgresServer) -> str:
    dsn = server.create_database(f"shop_{secrets.token_hex(4)}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SHOP.read_bytes())
    return dsn


@pytest.fixture
def admin(shop: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="package")
def reader(shop: str) -> Iterator[CatalogReader]:
    with CatalogReader(Postgres(dsn=shop, superusers_subscribe=True)) as reader:
        yield reader


@pytest.fixture
def describe(reader: CatalogReader) -> Describe:
    return lambda sql, **given: reader.describe(query_of(sql, **given))


def query_of(sql: str, *, types: tuple[int, ...] = (), **given: object) -> Query:
    return Query(
        template_sql=sql,
        parameters=[Parameter(type_oid=oid) for oid in types],
        **{"role": "clerk", "search_path": ["public"], "text_settings": TextSettings(time_zone="UTC"), **given},
    )
