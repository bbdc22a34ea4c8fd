"""The whole stack, started once for all that is tested on it here."""

import os

import pytest

from tests.conformance.stack.sandbox import LIMITS, Sandbox
from tests.fixtures.full_stack import running_stack


@pytest.fixture(scope="package")
def stack(postgres_server, kafka, tmp_path_factory):
    with running_stack(postgres_server, kafka, tmp_path_factory.mktemp("stack"), **LIMITS) as made:
        yield made


@pytest.fixture(scope="package")
def direct(stack):
    """Straight to PostgreSQL."""
    with stack.connect() as connection:
        yield connection


@pytest.fixture(scope="package")
def sandbox(stack, direct):
    return Sandbox(stack, direct)


@pytest.fixture(scope="package")
def role(sandbox):
    """Somebody who may log in, by his name as password, and no more."""
    name = f"somebody_{os.getpid()}"
    sandbox.write(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    yield name
    sandbox.write(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture(scope="package")
def numbered(sandbox):
    """A table and a sequence of which nothing may be changed."""
    table = sandbox.table("id int PRIMARY KEY, n int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 1)", f"CREATE SEQUENCE {table}_numbers")
    return table
