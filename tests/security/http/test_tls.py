"""With a certificate the port speaks TLS only, and takes a renewed one up by itself."""

import http.client
import socket
import ssl

import pytest

from tests.fixtures.http_port import WHOAMI, answer_of, basic
from tests.fixtures.http_roles import PASSWORD
from tests.integration.chassis.certificates import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


@pytest.fixture
def port(http_port, authority):
    identity = authority.issue("gateway")
    files = {"tls_certificate": str(identity.certificate), "tls_key": str(identity.key)}
    return http_port(gateway=files)


def trusting(authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def serial(port, authority) -> int:
    with (
        socket.create_connection(("127.0.0.1", port.port), timeout=10) as plain,
        trusting(authority).wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        return int(secured.getpeercert()["serialNumber"], 16)


def test_a_caller_is_known_over_tls(port, authority):
    connection = http.client.HTTPSConnection("localhost", port.port, timeout=10, context=trusting(authority))
    connection.request("GET", WHOAMI, headers=basic("alice", PASSWORD))
    answer = answer_of(connection.getresponse())
    connection.close()
    assert (answer.status, answer.body["name"]) == (200, "alice")


def test_plain_http_gets_no_answer(port):
    with pytest.raises((http.client.HTTPException, OSError)):
        port.basic("alice", PASSWORD)


def test_a_renewed_certificate_is_taken_up_with_the_next_connection(port, authority):
    before = serial(port, authority)
    authority.issue("gateway")  # over the same files
    assert serial(port, authority) != before
