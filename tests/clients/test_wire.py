"""What no driver says, said by hand: the bytes of the answers are the same through the gateway as directly (issue 5).

libpq logs in; then its socket is taken over. PostgreSQL's answers are compared byte by byte.
"""

import os
import select
import socket
import struct
from contextlib import contextmanager

import pytest
from msgspec.structs import replace
from psycopg import pq

INT8INC = 1219  # the OID of int8inc(int8)
ENDED = b"<the server closed the connection>"


def message(kind, *parts):
    body = b"".join(part if isinstance(part, bytes) else part.encode() + b"\0" for part in parts)
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def parse(name, text, *types):
    return message("P", name, text, struct.pack(f"!h{len(types)}i", len(types), *types))


def bind(portal, name, *values, binary=False):
    given = b"".join(struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in values)
    return message("B", portal, name, struct.pack("!hh", 0, len(values)), given, struct.pack("!hh", 1, int(binary)))


def describe(kind, name):
    return message("D", kind.encode(), name)


def execute(portal, rows=0):
    return message("E", portal, struct.pack("!i", rows))


def close(kind, name):
    return message("C", kind.encode(), name)


def query(text):
    return message("Q", text)


SYNC, FLUSH, TERMINATE, COPY_DONE = (message(kind) for kind in "SHXc")


@contextmanager
def logged_in(door):
    connection = pq.PGconn.connect(replace(door, database="postgres").dsn.encode())
    assert connection.status == pq.ConnStatus.OK, connection.error_message
    try:
        with socket.socket(fileno=os.dup(connection.socket)) as wire:
            wire.setblocking(True)
            yield wire
    finally:
        connection.finish()


def answers(wire, until):
    """All bytes until those that `until` accepts, or until the server ends the connection."""
    heard = b""
    while not until(heard):
        assert select.select([wire], [], [], 20)[0], f"no more than {heard[-500:]!r}"
        try:
            data = wire.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            return heard + ENDED
        heard += data
    return heard


def readies(count):
    return lambda heard: frames(heard).count("Z") >= count


def frames(heard):
    """The kinds of the whole messages so far."""
    kinds, at = "", 0
    while at + 5 <= len(heard):
        (length,) = struct.unpack_from("!i", heard, at + 1)
        if at + 1 + length > len(heard):
            break
        kinds += chr(heard[at])
        at += 1 + length
    return kinds


# Sent as it stands; how many ReadyForQuery end the answers (0: the server ends the connection).
CONVERSATIONS = {
    "portals that are suspended": (
        [query("BEGIN"), parse("s", "SELECT g FROM generate_series(1, 10) g"), bind("p", "s"),
         bind("q", "s", binary=True), execute("p", 3), execute("q", 2), describe("P", "p"), execute("p", 3),
         close("P", "q"), execute("q", 1), SYNC, query("ROLLBACK")], 3),
    "everything between two syncs is skipped after an error": (
        [parse("", "SELECT 1/0"), bind("", ""), execute(""), parse("", "SELECT 1"), bind("", ""), execute(""), SYNC,
         parse("", "SELECT 2"), bind("", ""), describe("P", ""), execute(""), SYNC], 2),
    "a thousand syncs": ([SYNC] * 1000, 1000),
    "statements of every form": (
        [parse("", "SELECT $1, $2::int", 25), describe("S", ""), bind("", "", b"a", None), execute(""), SYNC,
         parse("", ""), bind("", ""), describe("P", ""), execute(""), SYNC,
         parse("", "CREATE TEMP TABLE made (a int)"), bind("", ""), describe("P", ""), execute(""), SYNC], 3),
    "closing what is not there": ([close("S", "nothing"), close("P", "nothing"), SYNC], 1),
    "naming what is not there": (
        [bind("", "nothing"), SYNC, execute("nothing"), SYNC, describe("S", "nothing"), SYNC], 3),
    "a name taken twice": ([parse("twice", "SELECT 1"), parse("twice", "SELECT 2"), SYNC], 1),
    "too few values": ([parse("", "SELECT $1::int"), bind("", ""), SYNC], 1),
    "a wrong kind in Describe": ([describe("X", ""), SYNC], 1),
    "the fast path": ([message("F", struct.pack("!ihhhi", INT8INC, 1, 1, 1, 8), struct.pack("!qh", 41, 1))], 1),
    "the fast path to nowhere": ([message("F", struct.pack("!ihhh", 1, 0, 0, 0))], 1),
    "copy in with the simple protocol": (
        [query("CREATE TEMP TABLE c (a int)"), query("COPY c FROM STDIN"), message("d", b"1\n2"),
         message("d", b"\n3\n"), COPY_DONE, query("SELECT sum(a) FROM c")], 3),
    "copy in that the client fails": (
        [query("CREATE TEMP TABLE c (a int)"), query("COPY c FROM STDIN"), message("d", b"1\n"),
         message("f", "no more of it"), query("SELECT count(*) FROM c")], 3),
    "copy in that the server fails, with the rest on its way": (
        [query("CREATE TEMP TABLE c (a int)"), query("COPY c FROM STDIN"), *[message("d", b"x\n")] * 2000, COPY_DONE,
         query("SELECT count(*) FROM c")], 3),
    "copy in with the extended protocol": (
        [query("CREATE TEMP TABLE c (a int)"), parse("", "COPY c FROM STDIN"), bind("", ""), execute(""), FLUSH,
         message("d", b"1\n"), COPY_DONE, SYNC, query("SELECT sum(a) FROM c")], 3),
    "copy out": ([query("COPY (SELECT g, repeat('x', 300) FROM generate_series(1, 3000) g) TO STDOUT")], 1),
    "several statements with an error in the middle": ([query("SELECT 1; SELECT 1/0; SELECT 2")], 1),
    "nothing at all": ([query(""), query(" ;; ")], 2),
    "a Terminate": ([query("SELECT 1"), TERMINATE], 0),
    "a Terminate in the midst of a transaction": ([query("BEGIN"), parse("", "SELECT 1"), TERMINATE], 0),
    "a message of no known kind": ([message("z", b"whatever")], 0),
    "a Query without an end": ([b"Q\0\0\0\x0cSELECT 1"], 1),
    "a Query with bytes behind its end": ([message("Q", b"SELECT 1\0more\0")], 1),
    "a Parse that is cut": ([message("P", b"name\0SEL"), SYNC], 1),
    "bytes that are no UTF-8": ([query("SELECT 'a'"), message("Q", b"SELECT '\xff\xfe'\0")], 2),
    "a password out of turn": ([message("p", "secret")], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(doors, name):
    said, count = CONVERSATIONS[name]
    _converse(doors, b"".join(said), count, len(b"".join(said)))


@pytest.mark.parametrize("name", [name for name, (_, count) in CONVERSATIONS.items() if count])
def test_a_conversation_cut_anywhere(doors, name):
    """Byte by byte where it is short. Not those that the server ends: it would not hear the last pieces."""
    said, count = CONVERSATIONS[name]
    sent = b"".join(said)
    _converse(doors, sent, count, 1 + len(sent) // 1000)


def _converse(doors, sent, count, step):

    def program(door):
        with logged_in(door) as wire:
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(sent), step):
                wire.sendall(sent[at : at + step])
            return answers(wire, readies(count) if count else lambda _: False)

    heard = doors.same(program, fresh=False)
    assert frames(heard).count("Z") == count or not count


@pytest.mark.parametrize("said", [b"Q\0\0\0\2", b"Q\xff\xff\xff\xfe", b"S\0\0\0\0"], ids=["short", "negative", "zero"])
def test_an_impossible_length_ends_the_connection_with_a_sentence(doors, said):
    """PostgreSQL writes its sentence to the log alone."""

    def program(door):
        with logged_in(door) as wire:
            wire.sendall(query("SELECT 1"))
            answers(wire, readies(1))
            wire.sendall(said)
            return answers(wire, lambda _: False)

    direct, proxied = (program(door) for door in (doors.direct, doors.proxied))
    assert direct == ENDED
    assert b"C08P01\0" in proxied and b"impossible length" in proxied and proxied.endswith(ENDED)


SSL, GSS, CANCEL = 80877103, 80877104, 80877102
PROTOCOL_3 = 196608


def opening(code, *parameters):
    body = (
        struct.pack("!i", code)
        + b"".join(word.encode() + b"\0" for word in parameters)
        + (b"\0" if parameters else b"")
    )
    return struct.pack("!i", len(body) + 4) + body


def opened(door, *said, until=lambda _: False):
    """All that a bare connection hears; each of what is said waits for a byte in answer to the one before."""
    heard = b""
    with socket.create_connection((door.host, door.port), timeout=20) as wire:
        for one in said[:-1]:
            wire.sendall(one)
            heard += answers(wire, lambda heard: len(heard) > 0)
        wire.sendall(said[-1])
        return heard + answers(wire, until)


def asked_for_proof(heard):
    return b"SCRAM" in heard


@pytest.mark.parametrize("asked", [[SSL], [GSS], [GSS, SSL], [SSL, GSS]], ids=["ssl", "gss", "gss ssl", "ssl gss"])
def test_encryption_asked_for_and_declined(doors, asked):
    """One byte for each question; the start-up goes on in plain, to SCRAM's first question."""
    said = [*(opening(code) for code in asked), opening(PROTOCOL_3, "user", "postgres")]
    heard = doors.same(lambda door: opened(door, *said, until=asked_for_proof), fresh=False)
    assert heard.startswith(b"N" * len(asked) + b"R")


@pytest.mark.parametrize(
    "parameters",
    [
        ("database", "clients"),
        ("user", "postgres", "no_such_setting", "1"),
        ("user", "postgres", "replication", "nonsense"),
        ("user", "postgres", "client_encoding", "nonsense"),
        ("user", "x" * 8000),
    ],
    ids=["no user", "no such setting", "replication", "encoding", "a long name"],
)
def test_a_start_that_postgres_judges(doors, parameters):
    heard = doors.same(lambda door: opened(door, opening(PROTOCOL_3, *parameters), until=asked_for_proof), fresh=False)
    assert heard.startswith((b"E", b"R"))


@pytest.mark.parametrize(
    "said",
    [opening(PROTOCOL_3), opening(PROTOCOL_3, "user"), opening(131072, "user", "a"), opening(0x00040000, "user", "a"),
     struct.pack("!ii", 2**30, PROTOCOL_3), struct.pack("!ii", 4, PROTOCOL_3), b"GET / HTTP/1.1\r\n\r\n"],
    ids=["nothing", "half a pair", "protocol 2", "protocol 4", "huge", "tiny", "http"],
)  # fmt: skip
def test_a_start_that_is_none_is_refused(doors, said):
    """PostgreSQL refuses it too, in words of its own or in none."""
    assert opened(doors.direct, said).endswith(ENDED)
    heard = opened(doors.proxied, said)
    assert heard.startswith(b"E") and b"SFATAL\0" in heard and heard.endswith(ENDED)


def test_a_cancellation_of_nobody_is_not_answered(doors):
    said = struct.pack("!iiii", 16, CANCEL, 999_999, 1)
    assert doors.same(lambda door: opened(door, said), fresh=False) == ENDED


@pytest.mark.parametrize(
    "parameters",
    [("user", "postgres"), ("user", "postgres", "_pq_.unheard_of", "1")],
    ids=["a newer minor version", "an unheard-of option"],
)
def test_a_newer_protocol_is_negotiated_down(doors, parameters):
    said = opening(0x0003270F, *parameters)
    assert doors.same(lambda door: opened(door, said, until=asked_for_proof), fresh=False).startswith(b"v")
