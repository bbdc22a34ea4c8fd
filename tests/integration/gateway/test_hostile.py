"""Malformed and hostile bytes: a clear error, and nobody else notices (V61, V62)."""

import os
import socket
import struct
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from proto.pgwire.live import Pause, Resume, Selective, Subscribe, Unsubscribe, encode
from services.gateway.core.requests import SubscribeRequest
from tests.fixtures.wire import WireClient, rows
from tests.integration.gateway.port import Recorder, RunningPort

SOME = UUID(int=7)
GOOD = (
    encode(Subscribe("SELECT 1", (b"a", None, b""), "x = 1", Selective(enabled=True, max_changed_columns_ratio=0.5))),
    encode(Unsubscribe(SOME)),
    encode(Pause(SOME)),
    encode(Resume(SOME)),
    b"Q\0\0\0\x0dSELECT 1\0",
    b"S\0\0\0\4",
)
LENGTHS = st.sampled_from([0, 3, 4, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)


@st.composite
def mangled(draw):
    """Good messages of which one has another length, other bytes, or an end too early."""
    messages = draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=4))
    at = draw(st.integers(0, len(messages) - 1))
    victim = bytearray(messages[at])
    match draw(st.sampled_from(["length", "bytes", "cut", "type"])):
        case "length":
            victim[1:5] = struct.pack("!I", draw(LENGTHS))
        case "bytes":
            for _ in range(draw(st.integers(1, 6))):
                victim[draw(st.integers(5, len(victim) - 1)) if len(victim) > 5 else 0] = draw(st.integers(0, 255))
        case "cut":
            del victim[draw(st.integers(0, len(victim) - 1)) :]
        case "type":
            victim[0] = draw(st.integers(0xE0, 0xFF))
    return b"".join([*messages[:at], bytes(victim), *messages[at + 1 :]])


@pytest.fixture(scope="module")
def port(postgres_server):
    name = f"hostile_{os.getpid()}"
    with RunningPort(postgres_server.create_database(name)) as running:
        yield running
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def neighbour(port):
    """Another client, there all the time."""
    with psycopg.connect(port.dsn, autocommit=True) as connection:
        yield connection


def everybody_else_is_well(port, neighbour):
    assert neighbour.execute("SELECT 41 + 1").fetchone() == (42,)
    with psycopg.connect(port.dsn) as newcomer:
        assert newcomer.execute("SELECT 1").fetchone() == (1,)


def last_words(client: socket.socket) -> bytes:
    """What the other side says until it hangs up or falls silent."""
    said = b""
    try:
        while data := client.recv(65536):
            said += data
    except (TimeoutError, ConnectionResetError):
        pass
    return said


@SLOW
@given(data=st.binary(min_size=1, max_size=200))
def test_noise_before_the_login_ends_that_connection_alone(port, neighbour, data):
    with socket.create_connection(("127.0.0.1", port.port), timeout=0.2) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        said = last_words(client)
    assert said[:1] in (b"", b"E", b"N", b"R"), said
    assert neighbour.execute("SELECT 1").fetchone() == (1,)


@SLOW
@given(data=mangled())
def test_mangled_messages_end_at_most_their_own_session(port, neighbour, data):
    with WireClient(port.dsn, timeout_s=0.3) as client:
        client.send(data)
        while (frame := client.frame(0.1)) is not None:
            assert chr(frame.type) in "TDCZEIN\xf3", frame
    assert neighbour.execute("SELECT 1").fetchone() == (1,)


def test_a_length_that_never_comes_costs_only_what_was_sent(port, neighbour):
    """A megabyte is promised, five bytes come: nothing waits for it but this session."""
    clients = [WireClient(port.dsn) for _ in range(20)]
    for client in clients:
        client.send(bytes.fromhex("f0000fffff53"))
    everybody_else_is_well(port, neighbour)
    for client in clients:
        client.close()
    everybody_else_is_well(port, neighbour)


def test_unknown_types_are_answered_by_postgres_itself(port):
    with WireClient(port.dsn) as client:
        client.send(("\xf2", bytes(21)))
        frame = client.frame()
        assert (chr(frame.type), b"invalid frontend message type" in frame.body) == ("E", True)


def test_direct_tls_old_protocols_and_bytes_before_encryption_are_refused_in_words(port):
    for opening, words in (
        (bytes.fromhex("160301020001000001fc0303"), b"sslnegotiation=postgres"),
        (struct.pack("!ii", 8, 2 << 16), b"use version 3"),
        (struct.pack("!ii", 4, 3 << 16), b"is not PostgreSQL's protocol"),
        (struct.pack("!ii", 8, 80877103) + b"\0\0\0\x08", b"unencrypted bytes follow"),
        (struct.pack("!ii", 8, 80877104) + b"\0\0\0\x08", b"unencrypted bytes follow"),
    ):
        with socket.create_connection(("127.0.0.1", port.port), timeout=5) as client:
            client.sendall(opening)
            assert words in last_words(client)


def test_ten_thousand_messages_in_one_write_are_all_taken(port, neighbour):
    with WireClient(port.dsn) as client:
        before = len(port.recorder.received)
        client.send(*[Subscribe("SELECT 'ten thousand'")] * 10_000)
        assert rows(client.query("SELECT 1")) == [(b"1",)]
        wanted = SubscribeRequest("SELECT 'ten thousand'", (), None)

        def are_all_taken(recorder: Recorder) -> bool:
            """Messages of clients of earlier tests may still arrive beside them."""
            received = recorder.received[before:] if len(recorder.received) - before >= 10_000 else []
            return sum(request == wanted for request, _ in received) == 10_000

        port.recorder.wait(are_all_taken)
    everybody_else_is_well(port, neighbour)
