"""Redis by TLS: the right certificates pass, the wrong ones are told in a sentence."""

import subprocess

import msgspec
import pytest

from services.chassis.backoff import Backoff
from services.chassis.redis import Redis, RedisRefused, RedisUnreachable, connect, connect_sync
from services.devstack.ports import free_port
from tests.integration.chassis.redis_with_tls import redis_program


@pytest.fixture(scope="module")
def port(authority, tmp_path_factory):
    program, port, server = redis_program(), free_port(), authority.issue("server")
    options = {
        "--port": "0",
        "--tls-port": str(port),
        "--bind": "127.0.0.1",
        "--tls-cert-file": str(server.certificate),
        "--tls-key-file": str(server.key),
        "--tls-ca-cert-file": str(authority.certificate),
        "--tls-auth-clients": "yes",
        "--requirepass": "right",
        "--save": "",
    }
    folder = tmp_path_factory.mktemp("redis")
    with (folder / "log").open("wb") as output:
        process = subprocess.Popen(
            [program.path, *(word for option in options.items() for word in option)],
            env=program.environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    yield port
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def section(port, authority):
    client = authority.issue("client")
    section = Redis(
        url=f"rediss://:right@127.0.0.1:{port}/0",
        ssl_ca_location=str(authority.certificate),
        ssl_certificate_location=str(client.certificate),
        ssl_key_location=str(client.key),
    )
    for _ in Backoff().attempts(give_up_after_s=30):
        try:
            connect_sync(section).close()
        except RedisUnreachable:
            continue
        return section
    raise AssertionError("redis-server did not start")


async def test_what_is_set_by_tls_is_read_by_tls_also_asynchronously(section):
    with connect_sync(section) as blocking:
        blocking.set("letter", b"secret")
    async with await connect(section) as client:
        assert await client.get("letter") == b"secret"


async def test_a_server_whose_certificate_is_not_of_our_authority_is_refused(section, stranger):
    suspicious = msgspec.structs.replace(section, ssl_ca_location=str(stranger.certificate))
    with pytest.raises(RedisRefused, match=r"do not agree \(.*certificate verify failed.*TIDEWIRE_REDIS_SSL_\*"):
        connect_sync(suspicious)
    with pytest.raises(RedisRefused, match="certificate verify failed"):
        await connect(suspicious)


async def test_a_client_without_a_certificate_is_refused(section):
    nameless = msgspec.structs.replace(section, ssl_certificate_location=None, ssl_key_location=None)
    # The server says no and hangs up; which of the two the client meets first is a race.
    with pytest.raises((RedisRefused, RedisUnreachable)):
        connect_sync(nameless)
    with pytest.raises((RedisRefused, RedisUnreachable)):
        await connect(nameless)


async def test_a_wrong_password_is_refused_in_a_sentence_without_it(section, port):
    wrong = msgspec.structs.replace(section, url=f"rediss://:wr0ng@127.0.0.1:{port}/0")
    with pytest.raises(RedisRefused) as refusal:
        connect_sync(wrong)
    with pytest.raises(RedisRefused):
        await connect(wrong)
    assert ("invalid" in str(refusal.value), "wr0ng" in str(refusal.value)) == (True, False)


async def test_nothing_listening_is_unreachable_and_may_be_retried():
    nowhere = Redis(url=f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(RedisUnreachable, match=r"does not answer \(.*\): start it, or set TIDEWIRE_REDIS_URL"):
        connect_sync(nowhere)
    with pytest.raises(RedisUnreachable):
        await connect(nowhere)


def test_plain_talk_to_the_tls_port_does_not_get_through(section, port):
    with pytest.raises((RedisUnreachable, RedisRefused)):
        connect_sync(Redis(url=f"redis://:right@127.0.0.1:{port}/0"))


def test_certificates_without_tls_are_refused_as_a_mistake(section):
    with pytest.raises(ValueError, match="let TIDEWIRE_REDIS_URL begin with rediss://"):
        msgspec.structs.replace(section, url="redis://127.0.0.1/0")
