"""One stack for the folder: tests use tables and subscriptions of their own."""

import secrets

import pytest

from tests.fixtures.cdc import cdc_stack


@pytest.fixture(scope="package")
def cdc(postgres_server, kafka, redis_server, tmp_path_factory):
    name = f"cdc_{secrets.token_hex(5)}"
    dsn = postgres_server.create_database(name)
    with cdc_stack(dsn, kafka, redis_server, tmp_path_factory.mktemp("cdc")) as stack:
        yield stack
    postgres_server.drop_database(name)


@pytest.fixture
def service(cdc):
    return cdc.service()
