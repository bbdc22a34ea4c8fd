"""TLS and SCRAM on both legs, with real certificates: it works, or it is refused with a sentence (issue 5).

The client is libpq by psycopg. Where it connects to PostgreSQL directly with the same choices, that is the oracle.
"""

import re
import shutil
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.fixtures.postgres import start_postgres
from tests.fixtures.postgres_with_tls import admit, start_postgres_with_tls
from tests.integration.chassis.certificates import Authority
from tests.integration.gateway.port import RunningPort

PASSWORD = "ein Passwort"
SSLMODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
BINDINGS = ("disable", "prefer", "require")
HOW = "SELECT current_user, (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())"
METHODS = {"by_scram": "scram-sha-256", "by_md5": "md5", "by_password": "password", "by_trust": "trust"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that nobody here knows."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def server_identity(authority):
    return authority.issue("server")


@pytest.fixture(scope="module")
def gateway_identity(authority):
    return authority.issue("gateway")


def furnish(server):
    """Users whom PostgreSQL asks in different ways."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for user, method in METHODS.items():
            encryption = "md5" if method == "md5" else "scram-sha-256"
            connection.execute(f"SET password_encryption = '{encryption}'")
            connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'")
    admit(server, *(f"host all {user} 127.0.0.1/32 {method}" for user, method in METHODS.items()))


@pytest.fixture(scope="module")
def with_tls(tmp_path_factory, server_identity, authority):
    """PostgreSQL with ssl = on."""
    with start_postgres_with_tls(tmp_path_factory.mktemp("with_tls"), server_identity, authority) as server:
        furnish(server)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE by_certificate LOGIN")
            connection.execute(f"CREATE ROLE by_tls LOGIN PASSWORD '{PASSWORD}'")
        admit(
            server,
            "hostssl all by_certificate 127.0.0.1/32 cert",
            "hostssl all by_tls 127.0.0.1/32 scram-sha-256",
            "hostnossl all by_tls 127.0.0.1/32 reject",
        )
        yield server


@pytest.fixture(scope="module")
def without_tls(tmp_path_factory):
    """PostgreSQL with ssl = off."""
    with start_postgres(tmp_path_factory.mktemp("without_tls")) as server:
        furnish(server)
        yield server


def outcome(port, user="by_scram", **choices):
    """What a query says, or libpq's words for the failure; without the port, which differs."""
    choices = {"password": PASSWORD, "host": "127.0.0.1", "dbname": "postgres", "connect_timeout": 10, **choices}
    try:
        with psycopg.connect("", port=port, user=user, **choices) as connection:
            return *connection.execute(HOW).fetchone(), connection.pgconn.ssl_in_use
    except psycopg.OperationalError as error:
        return re.sub(r"port \d+", "port …", str(error))


def leg(server, **choices):
    """A DSN of the gateway."""
    return make_conninfo(server.dsn, **choices)


def files(identity):
    return {"tls_certificate": str(identity.certificate), "tls_key": str(identity.key)}


@pytest.fixture(scope="module")
def ports(with_tls, without_tls, authority, gateway_identity, server_identity):
    """Gateways: as `client's leg_server's leg`, and the one that has PostgreSQL's own certificate."""
    verified = {"sslmode": "verify-full", "sslrootcert": str(authority.certificate)}
    made = {
        "plain_plain": RunningPort(leg(without_tls)),
        "plain_tls": RunningPort(leg(with_tls, **verified)),
        "tls_plain": RunningPort(leg(without_tls), **files(gateway_identity)),
        "tls_tls": RunningPort(leg(with_tls, **verified), **files(gateway_identity)),
        "same_certificate": RunningPort(leg(with_tls, **verified), **files(server_identity)),
        "tls_only": RunningPort(leg(without_tls), tls_required=True, **files(gateway_identity)),
    }
    for running in made.values():
        running.__enter__()
    yield {name: running.port for name, running in made.items()}
    for running in made.values():
        running.stop()


@pytest.mark.parametrize("sslmode", SSLMODES)
def test_a_gateway_without_a_certificate_is_as_postgres_without_one(ports, without_tls, authority, sslmode):
    choices = {"sslmode": sslmode, "sslrootcert": str(authority.certificate)}
    assert outcome(ports["plain_plain"], **choices) == outcome(without_tls.port, **choices)


@pytest.mark.parametrize("sslmode", SSLMODES)
def test_a_gateway_with_a_certificate_speaks_tls_where_the_client_wants_it(ports, authority, sslmode):
    said = outcome(ports["tls_plain"], sslmode=sslmode, sslrootcert=str(authority.certificate))
    assert said == ("by_scram", False, sslmode not in ("disable", "allow"))


@pytest.mark.parametrize("sslmode", SSLMODES)
def test_with_postgres_own_certificate_every_mode_is_as_direct(ports, with_tls, authority, sslmode):
    choices = {"sslmode": sslmode, "sslrootcert": str(authority.certificate)}
    direct, proxied = outcome(with_tls.port, **choices), outcome(ports["same_certificate"], **choices)
    assert (proxied[0], proxied[2]) == (direct[0], direct[2])
    assert proxied[1] is True  # the leg to PostgreSQL is the operator's choice, not the client's


@pytest.mark.parametrize("sslmode", ["verify-ca", "verify-full"])
@pytest.mark.parametrize("gateway", ["tls_plain", "tls_tls", "same_certificate"])
def test_a_stranger_s_authority_is_refused_by_the_client(ports, with_tls, stranger, gateway, sslmode):
    choices = {"sslmode": sslmode, "sslrootcert": str(stranger.certificate)}
    said = outcome(ports[gateway], **choices)
    assert "certificate verify failed" in said
    assert said == outcome(with_tls.port, **choices)


def test_a_wrong_name_is_refused_by_verify_full_alone(ports, with_tls, authority):
    choices = {"host": "gateway.example", "hostaddr": "127.0.0.1", "sslrootcert": str(authority.certificate)}
    said = outcome(ports["same_certificate"], sslmode="verify-full", **choices)
    assert 'does not match host name "gateway.example"' in said
    assert said == outcome(with_tls.port, sslmode="verify-full", **choices)
    assert outcome(ports["same_certificate"], sslmode="verify-ca", **choices) == ("by_scram", True, True)


def test_localhost_is_a_name_of_the_certificate(ports, authority):
    choices = {"host": "localhost", "hostaddr": "127.0.0.1", "sslrootcert": str(authority.certificate)}
    assert outcome(ports["tls_plain"], sslmode="verify-full", **choices)[2] is True


def test_tls_from_the_first_byte_is_not_taken(ports, authority):
    """sslnegotiation=direct, which PostgreSQL takes since 17: the gateway refuses it as those before do, at once."""
    choices = {"sslmode": "require", "sslnegotiation": "direct", "sslrootcert": str(authority.certificate)}
    assert "SSL error: wrong version number" in outcome(ports["same_certificate"], **choices)


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("user", METHODS)
def test_plain_on_both_legs_authenticates_as_direct(ports, without_tls, user, binding):
    choices = {"sslmode": "disable", "channel_binding": binding}
    assert outcome(ports["plain_plain"], user, **choices) == outcome(without_tls.port, user, **choices)


@pytest.mark.parametrize("user", METHODS)
@pytest.mark.parametrize("gateway", ["plain_plain", "plain_tls", "tls_plain", "same_certificate"])
def test_every_password_method_passes_by_default(ports, gateway, user):
    assert outcome(ports[gateway], user)[0] == user


@pytest.mark.parametrize("user", [user for user in METHODS if user != "by_trust"])
@pytest.mark.parametrize("gateway", ["plain_plain", "plain_tls", "tls_plain", "same_certificate"])
def test_a_wrong_password_is_refused_in_the_words_of_postgres(ports, gateway, user):
    assert f'password authentication failed for user "{user}"' in outcome(ports[gateway], user, password="wrong")


@pytest.mark.parametrize("binding", BINDINGS)
def test_tls_to_the_gateway_and_plain_behind_it_has_no_channel_to_bind(ports, binding):
    said = outcome(ports["tls_plain"], sslmode="require", channel_binding=binding)
    if binding == "require":
        assert "channel binding is required, but server did not offer an authentication method that supports" in said
    else:
        assert said == ("by_scram", False, True)


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_plain_client_before_tls_behind_has_no_channel_to_bind(ports, binding):
    said = outcome(ports["plain_tls"], sslmode="disable", channel_binding=binding)
    if binding == "require":
        assert "channel binding required, but SSL not in use" in said
    else:
        assert said == ("by_scram", True, False)


@pytest.mark.parametrize("binding", BINDINGS)
def test_two_certificates_refuse_a_bound_channel_with_one_sentence(ports, binding):
    said = outcome(ports["tls_tls"], sslmode="require", channel_binding=binding)
    if binding == "disable":
        assert said == ("by_scram", True, True)
    else:
        assert "FATAL" in said
        assert "channel binding cannot pass through this gateway" in said
        assert "channel_binding=disable" in said and "PostgreSQL's own certificate" in said


@pytest.mark.parametrize("user", ["by_md5", "by_password"])
def test_two_certificates_do_not_hinder_other_methods(ports, user):
    assert outcome(ports["tls_tls"], user, sslmode="require") == (user, True, True)


@pytest.mark.parametrize("binding", BINDINGS)
def test_postgres_own_certificate_lets_a_bound_channel_through(ports, with_tls, binding):
    choices = {"sslmode": "require", "channel_binding": binding}
    assert outcome(with_tls.port, **choices) == ("by_scram", True, True)
    assert outcome(ports["same_certificate"], **choices) == ("by_scram", True, True)


def test_a_gateway_that_requires_tls(ports, authority):
    refused = outcome(ports["tls_only"], sslmode="disable")
    assert "FATAL" in refused and "takes only encrypted connections" in refused and "sslmode=require" in refused
    for sslmode in SSLMODES[1:]:
        said = outcome(ports["tls_only"], sslmode=sslmode, sslrootcert=str(authority.certificate))
        assert said == ("by_scram", False, True), sslmode


def test_encryption_by_gss_is_declined(ports):
    assert outcome(ports["tls_plain"], gssencmode="prefer", sslmode="require") == ("by_scram", False, True)


def test_a_rule_for_tls_alone_sees_the_leg_of_the_gateway(ports, with_tls):
    """pg_hba.conf judges the gateway's connection: hostssl holds where the operator chose TLS for it."""
    assert outcome(ports["plain_tls"], "by_tls", sslmode="disable") == ("by_tls", True, False)
    with RunningPort(leg(with_tls, sslmode="disable")) as plain:
        said = outcome(plain.port, "by_tls", sslmode="disable")
    assert said == outcome(with_tls.port, "by_tls", sslmode="disable")
    assert "pg_hba.conf rejects connection" in said


def test_a_client_s_certificate_cannot_pass(ports, authority):
    client = authority.issue("by_certificate")
    client.key.chmod(0o600)
    choices = {"sslmode": "require", "sslcert": str(client.certificate), "sslkey": str(client.key)}
    said = outcome(ports["same_certificate"], "by_certificate", **choices)
    assert "connection requires a valid client certificate" in said


def test_cancellation_passes_tls_on_both_legs(ports, with_tls):
    """Of libpq 17 and newer: the CancelRequest itself is encrypted."""
    choices = {"sslmode": "require", "channel_binding": "require"}
    target = {"host": "127.0.0.1", "port": ports["same_certificate"], "dbname": "postgres"}
    with (
        psycopg.connect("", user="by_scram", password=PASSWORD, autocommit=True, **target, **choices) as connection,
        psycopg.connect(with_tls.dsn, autocommit=True) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        asleep = pool.submit(connection.execute, "SELECT pg_sleep(60)")
        running = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        while watcher.execute(running, [connection.info.backend_pid]).fetchone() == (0,):
            assert not asleep.done()
        connection.cancel_safe()
        assert isinstance(asleep.exception(30), psycopg.errors.QueryCanceled)
        assert len(connection.execute("SELECT repeat('x', 20000000)").fetchone()[0]) == 20_000_000


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"sslmode": "require"}, "does not take TLS, which sslmode=require of the gateway's DSN asks for"),
        ({"sslmode": "verify-full"}, "does not take TLS, which sslmode=verify-full of the gateway's DSN asks for"),
    ],
    ids=["require", "verify-full"],
)
def test_a_leg_that_must_be_encrypted_is_never_plain(without_tls, authority, choices, words):
    with RunningPort(leg(without_tls, sslrootcert=str(authority.certificate), **choices)) as gateway:
        said = outcome(gateway.port, sslmode="disable")
    assert "FATAL" in said and words in said


@pytest.mark.parametrize("sslmode", ["disable", "allow", "prefer"])
def test_a_leg_that_may_be_plain(without_tls, with_tls, sslmode):
    with RunningPort(leg(without_tls, sslmode=sslmode)) as gateway:
        assert outcome(gateway.port) == ("by_scram", False, False)
    with RunningPort(leg(with_tls, sslmode=sslmode)) as gateway:
        assert outcome(gateway.port) == ("by_scram", sslmode == "prefer", False)


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
def test_a_postgres_with_a_stranger_s_certificate_is_not_spoken_to(with_tls, stranger, sslmode):
    """`require` with a root file verifies too, as libpq has it."""
    with RunningPort(leg(with_tls, sslmode=sslmode, sslrootcert=str(stranger.certificate))) as gateway:
        said = outcome(gateway.port, sslmode="disable")
    assert "FATAL" in said and "certificate verify failed" in said


def test_a_postgres_with_another_name_is_not_spoken_to_by_verify_full(with_tls, authority):
    named = {"host": "postgres.example", "hostaddr": "127.0.0.1", "sslrootcert": str(authority.certificate)}
    with RunningPort(leg(with_tls, sslmode="verify-full", **named)) as gateway:
        said = outcome(gateway.port, sslmode="disable")
    assert "FATAL" in said and "certificate verify failed" in said and "postgres.example" not in said
    with RunningPort(leg(with_tls, sslmode="verify-ca", **named)) as gateway:
        assert outcome(gateway.port, sslmode="disable") == ("by_scram", True, False)


def test_a_renewed_certificate_is_shown_to_the_next_client(without_tls, authority, stranger, tmp_path):
    certificate, key = tmp_path / "gateway.crt", tmp_path / "gateway.key"

    def put(identity):
        for source, target in ((identity.key, key), (identity.certificate, certificate)):
            shutil.copyfile(source, target.with_suffix(".new"))
            target.with_suffix(".new").replace(target)

    put(stranger.issue("first"))
    verifying = {"sslmode": "verify-full", "sslrootcert": str(authority.certificate)}
    with RunningPort(leg(without_tls), tls_certificate=str(certificate), tls_key=str(key)) as gateway:
        assert "certificate verify failed" in outcome(gateway.port, **verifying)
        put(authority.issue("second"))
        assert outcome(gateway.port, **verifying) == ("by_scram", False, True)


@contextmanager
def demanding(kind):
    """A server that asks for a method which our PostgreSQL was not built with; it says nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            client, _ = listening.accept()
            with client:
                client.recv(65536)
                client.sendall(b"R" + struct.pack("!ii", 8, kind))
                client.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(20)


@pytest.mark.parametrize(("kind", "name"), [(7, "GSSAPI"), (9, "SSPI"), (2, "Kerberos"), (77, "77")])
def test_what_cannot_pass_is_refused_by_name(kind, name):
    with demanding(kind) as port, RunningPort(f"host=127.0.0.1 port={port} sslmode=disable") as gateway:
        said = outcome(gateway.port, sslmode="disable")
    assert "FATAL" in said and name in said
    assert "cannot pass through this gateway" in said and "scram-sha-256" in said


def test_whom_postgres_asks_for_no_password_comes_from_this_machine_or_is_allowed(ports, without_tls):
    assert outcome(ports["plain_plain"], "by_trust", password="") == ("by_trust", False, False)
    with RunningPort(leg(without_tls), allow_trust=True) as gateway:
        assert outcome(gateway.port, "by_trust", password="") == ("by_trust", False, False)
