"""The whole road, started once for all that is tested on it here."""

import os

import pytest

from tests.conformance.road.stage import LIMITS, Stage
from tests.fixtures.walk import walking


@pytest.fixture(scope="package")
def walk(postgres_server, kafka, tmp_path_factory):
    with walking(postgres_server, kafka, tmp_path_factory.mktemp("walk"), **LIMITS) as made:
        yield made


@pytest.fixture(scope="package")
def direct(walk):
    """Straight to PostgreSQL."""
    with walk.connect() as connection:
        yield connection


@pytest.fixture(scope="package")
def stage(walk, direct):
    return Stage(walk, direct)


@pytest.fixture(scope="package")
def role(stage):
    """Somebody who may log in, by his name as password, and no more."""
    name = f"somebody_{os.getpid()}"
    stage.write(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    yield name
    stage.write(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture(scope="package")
def numbered(stage):
    """A table and a sequence of which nothing may be changed."""
    table = stage.table("id int PRIMARY KEY, n int")
    stage.write(f"INSERT INTO {table} VALUES (1, 1)", f"CREATE SEQUENCE {table}_numbers")
    return table
