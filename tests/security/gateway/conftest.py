"""A gateway before a database with weak and strong roles; what it would subscribe to is read from `commands`."""

import os
from uuid import uuid4

import psycopg
import pytest

from tests.security.gateway.house import ROLES, TABLES, House

NAME = f"house_{os.getpid()}"


@pytest.fixture(scope="session")
def house_dsn(postgres_server):
    dsn = postgres_server.create_database(NAME)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(ROLES)
        connection.execute(TABLES)
    yield dsn
    postgres_server.drop_database(NAME)


@pytest.fixture(scope="module")
def house(house_dsn, kafka, redis_server, tmp_path_factory):
    made = House(house_dsn, kafka.bootstrap, f"house{uuid4().hex[:8]}-", redis_server.url, tmp_path_factory.mktemp("h"))
    yield made
    made.end()
