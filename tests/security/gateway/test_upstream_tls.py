"""The way to PostgreSQL: whom it trusts, and what is told of it (issue 10, G)."""

import asyncio

import psycopg
import pytest

from proto.pgwire.live import Subscribe
from services.chassis.postgres import Postgres
from services.chassis.settings import BadSetting
from services.gateway.core.principal import Principal
from services.gateway.errors import SubscribeRefused
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.roles import Roles
from services.gateway.outbound.upstream import upstream_tls_of
from services.gateway.outbound.validation import Validation
from tests.fixtures.postgres import start_postgres
from tests.integration.gateway.port import RunningPort

AWAY = "host=127.0.0.1 port=1 user=nobody dbname=nothing password=secret"


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
def test_who_verifies_names_an_authority(sslmode):
    with pytest.raises(BadSetting, match="needs an authority"):
        upstream_tls_of(f"host=p sslmode={sslmode}")


@pytest.mark.parametrize("sslmode", ["require", "verify-ca"])
def test_all_authorities_of_the_system_are_enough_only_with_the_right_name(sslmode):
    with pytest.raises(BadSetting, match="needs sslmode=verify-full"):
        upstream_tls_of(f"host=p sslmode={sslmode} sslrootcert=system")
    assert upstream_tls_of("host=p sslmode=verify-full sslrootcert=system").context().check_hostname


def test_a_refusal_tells_no_address():
    with RunningPort(AWAY) as port, pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(host="127.0.0.1", port=port.port, user="u", sslmode="disable", gssencmode="disable")
    said = str(refused.value).rpartition("FATAL:")[2]
    assert "PostgreSQL does not answer" in said
    assert "127.0.0.1" not in said and "Connect" not in said


async def test_a_refused_subscribe_tells_no_address():
    postgres = Postgres(dsn=AWAY)
    with pytest.raises(SubscribeRefused) as refused:
        await Checks(Validation(postgres, statement_timeout_ms=1000)).check(
            Subscribe("SELECT 1"), Principal("c", "r", "nothing", {})
        )
    assert "127.0.0.1" not in refused.value.message and "nobody" not in refused.value.message
    roles = Roles(postgres)
    with pytest.raises(SubscribeRefused) as unknown:
        await roles.standing("somebody")
    await asyncio.to_thread(roles.close)
    assert "127.0.0.1" not in unknown.value.message


def test_over_postgres_socket_a_client_needs_a_password(tmp_path):
    """There PostgreSQL may take the gateway's own user for the client's."""
    with start_postgres(tmp_path) as server:
        trusting = server.data / "pg_hba.conf"
        trusting.write_text("local all all trust\n" + trusting.read_text())
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET unix_socket_directories = '{server.data}'")
        server.restart()
        by_socket = psycopg.conninfo.make_conninfo(server.dsn, host=str(server.data))
        with (
            RunningPort(by_socket) as port,
            pytest.raises(psycopg.OperationalError, match="TIDEWIRE_GATEWAY_ALLOW_TRUST=true"),
        ):
            psycopg.connect(port.dsn)
        with RunningPort(by_socket, allow_trust=True) as port, psycopg.connect(port.dsn) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
