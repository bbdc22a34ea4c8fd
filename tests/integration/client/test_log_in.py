"""How the client gets in: each way of log-in and each sslmode, at real servers with a real certificate.

The wheels' servers are built without TLS, Debian's with it.
"""

import os
import shutil

import psycopg
import pytest
import tidewire

from tests.fixtures.postgres import VERSIONS, start_postgres
from tests.integration.chassis.certificates import Authority

HBA = """
host      all clear   127.0.0.1/32 password
host      all hashed  127.0.0.1/32 md5
hostssl   all secured 127.0.0.1/32 scram-sha-256
hostssl   all shown   127.0.0.1/32 cert
hostnossl all shown   127.0.0.1/32 reject
hostnossl all secured 127.0.0.1/32 reject
"""

WITH_TLS = [version for version in VERSIONS if version not in (16, 18)]
pytestmark = pytest.mark.parametrize("server", WITH_TLS, indirect=True, scope="module")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def server(request, tmp_path_factory, authority):
    """With TLS, and a user for each way."""
    identity = authority.issue("localhost")
    with start_postgres(tmp_path_factory.mktemp("tls"), request.param) as made:
        owner = made.data.stat()
        for name, source in (
            ("s.crt", identity.certificate),
            ("s.key", identity.key),
            ("ca.crt", authority.certificate),
        ):
            shutil.copy(source, made.data / name)
            os.chown(made.data / name, owner.st_uid, owner.st_gid)
            (made.data / name).chmod(0o600)
        hba = made.data / "pg_hba.conf"
        hba.write_text(HBA + hba.read_text())
        with psycopg.connect(made.dsn, autocommit=True) as connection:
            for name, value in (
                ("ssl_cert_file", "s.crt"),
                ("ssl_key_file", "s.key"),
                ("ssl_ca_file", "ca.crt"),
                ("ssl", "on"),
            ):
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("CREATE ROLE clear LOGIN PASSWORD 'pässword'")
            connection.execute("CREATE ROLE secured LOGIN PASSWORD 'pässword'; CREATE ROLE shown LOGIN")
            connection.execute("SET password_encryption = 'md5'")
            connection.execute("CREATE ROLE hashed LOGIN PASSWORD 'pässword'")
            connection.execute("SELECT pg_reload_conf()")
        yield made


def address(server, user, password="pässword", **more):
    words = " ".join(f"{name}='{value}'" for name, value in more.items())
    return f"host=127.0.0.1 port={server.port} dbname=app user={user} password='{password}' {words}"


async def who(dsn):
    """Who we are, and whether the connection is encrypted."""
    async with await tidewire.connect(dsn, environ={}) as live:
        sql = "SELECT current_user, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        ((user, encrypted),) = await live.query(sql)
        return user, encrypted == "t"


@pytest.mark.parametrize("user", ["clear", "hashed", "secured"])
async def test_each_way_of_log_in(server, user):
    assert await who(address(server, user)) == (user, True)


@pytest.mark.parametrize("user", ["clear", "hashed", "secured"])
async def test_a_wrong_password_is_refused_in_the_server_s_words(server, user):
    with pytest.raises(tidewire.LogInRefused, match="password authentication failed") as refused:
        await who(address(server, user, "wrong"))
    assert not refused.value.retry


@pytest.mark.parametrize("user", ["clear", "secured"])
async def test_a_password_that_is_missing_is_asked_for(server, user):
    with pytest.raises(tidewire.LogInRefused, match="PGPASSWORD"):
        await who(f"host=127.0.0.1 port={server.port} dbname=app user={user}")


@pytest.mark.parametrize(
    ("sslmode", "encrypted"),
    [
        ("disable", False),
        ("allow", False),
        ("prefer", True),
        ("require", True),
        ("verify-ca", True),
        ("verify-full", True),
    ],
)
async def test_each_sslmode(server, authority, sslmode, encrypted):
    assert await who(address(server, "clear", sslmode=sslmode, sslrootcert=authority.certificate)) == (
        "clear",
        encrypted,
    )


async def test_allow_takes_tls_where_the_server_insists(server):
    assert await who(address(server, "secured", sslmode="allow")) == ("secured", True)


async def test_a_certificate_of_a_stranger_is_not_believed(server, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    for sslmode in ("require", "verify-ca", "verify-full"):  # as in libpq, `require` with a root file checks it too
        with pytest.raises(tidewire.LogInRefused, match="not trusted"):
            await who(address(server, "clear", sslmode=sslmode, sslrootcert=stranger.certificate))


async def test_a_name_that_is_not_the_certificate_s_is_refused_by_verify_full_only(server, authority):
    # The same address, by a name that the certificate does not have.
    other = address(server, "clear", sslrootcert=authority.certificate).replace("127.0.0.1", "127.1")
    assert await who(f"{other} sslmode=verify-ca") == ("clear", True)
    with pytest.raises(tidewire.LogInRefused, match="not trusted"):
        await who(f"{other} sslmode=verify-full")


async def test_a_certificate_of_our_own_is_shown(server, authority):
    mine = authority.issue("shown")
    dsn = address(server, "shown", sslmode="require", sslcert=mine.certificate, sslkey=mine.key)
    assert await who(dsn) == ("shown", True)


async def test_verification_without_roots_says_what_is_missing(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(tidewire.BadAddress, match="sslrootcert"):
        await who(address(server, "clear", sslmode="verify-full"))


@pytest.mark.parametrize("binding", ["disable", "prefer", "require"])
async def test_scram_is_bound_to_the_channel_as_asked(server, binding):
    assert await who(address(server, "secured", channel_binding=binding)) == ("secured", True)


@pytest.mark.parametrize(("user", "sslmode"), [("clear", "require"), ("hashed", "require"), ("tidewire", "disable")])
async def test_what_cannot_be_bound_is_refused_if_binding_is_required(server, user, sslmode):
    with pytest.raises(tidewire.LogInRefused, match="channel_binding=require, but"):
        await who(address(server, user, sslmode=sslmode, channel_binding="require"))


async def test_a_server_without_tls_is_refused_where_tls_is_required(server, postgres_server):
    words = f"host=127.0.0.1 port={postgres_server.port} user=x sslmode=require"
    with pytest.raises(tidewire.LogInRefused, match="does not offer TLS"):
        await who(words)


async def test_the_second_host_is_taken_if_the_first_is_dead(server):
    dsn = f"postgresql://clear:p%C3%A4ssword@127.0.0.1:1,127.0.0.1:{server.port}/app"
    assert await who(dsn) == ("clear", True)


async def test_a_dead_host_is_named(server):
    with pytest.raises(tidewire.ConnectionFailed, match=r"127\.0\.0\.1:1 cannot be reached") as failed:
        await who("postgresql://nobody@127.0.0.1:1/nothing")
    assert failed.value.retry


async def test_a_database_that_is_not_there_is_refused_for_good(server):
    with pytest.raises(tidewire.LogInRefused, match="does not exist") as refused:
        await who(address(server, "clear").replace("dbname=app", "dbname=nothing"))
    assert not refused.value.retry
