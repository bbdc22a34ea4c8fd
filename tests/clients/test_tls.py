"""By TLS through the gateway each driver gets what it gets in plain from PostgreSQL (issue 5).

The modes and refusals of TLS are in tests/integration/gateway/test_tls.py, by libpq; here are the others' own stacks.
"""

import asyncio
import hashlib

import asyncpg
import psycopg
import psycopg2
import pytest

from tests.clients.doors import Doors
from tests.clients.programs import go_command, java_command, node_command, program
from tests.fixtures.gateway import start_gateway
from tests.integration.chassis.certificates import Authority

COMMANDS = {"node": node_command, "pgx": go_command, "jdbc": java_command}


@pytest.fixture(scope="module")
def doors_with_tls(clients_server, kafka, tmp_path_factory):
    """PostgreSQL in plain, and a gateway process that takes only TLS, configured by its environment."""
    directory = tmp_path_factory.mktemp("gateway_with_tls")
    authority = Authority(directory, "authority")
    identity = authority.issue("gateway")
    settings = {"tls_certificate": str(identity.certificate), "tls_key": str(identity.key), "tls_required": "true"}
    with start_gateway(
        directory, dsn=clients_server.dsn, kafka=kafka.bootstrap, prefix="clients_tls.", settings=settings
    ) as gateway:
        yield Doors(clients_server, gateway.port, authority=str(authority.certificate))


@pytest.mark.parametrize("scenario", ["pool", "copy", "large", "cancelled"])
@pytest.mark.parametrize("driver", COMMANDS)
def test_drivers_of_other_languages(doors_with_tls, driver, scenario):
    assert doors_with_tls.same(program(COMMANDS[driver](), scenario))


def test_asyncpg(doors_with_tls):
    async def session(door):
        connection = await asyncpg.connect(door.dsn)
        try:
            large = bytes(range(256)) * 50_000
            back = await connection.fetchval("SELECT $1::bytea", large)
            with pytest.raises(TimeoutError):
                await connection.fetch("SELECT pg_sleep(60) -- by asyncpg over TLS", timeout=0.3)
            await asyncio.to_thread(doors_with_tls.wait_until_ended, "by asyncpg over TLS")
            rows = await connection.fetch("SELECT g, md5(g::text) FROM generate_series(1, 20000) g")
            return back == large, hashlib.sha256(repr(rows).encode()).hexdigest()
        finally:
            await connection.close()

    assert doors_with_tls.same(lambda door: asyncio.run(session(door)))[0]


@pytest.mark.parametrize("connect", [psycopg.connect, psycopg2.connect], ids=["psycopg", "psycopg2"])
def test_libpq(doors_with_tls, connect):
    def session(door):
        connection = connect(door.dsn)
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT g, repeat('ü', g %% 100) FROM generate_series(1, %s) g", [30_000])
            return hashlib.sha256(repr(cursor.fetchall()).encode()).hexdigest()
        finally:
            connection.close()

    assert doors_with_tls.same(session)
