"""What one client sends ends at most its own session, and delays nobody (issue 10, D and F)."""

import contextlib
import os
import socket
import struct
import threading
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from proto.pgwire.framing import encode_frame
from proto.pgwire.live import Pause, Refused, Resume, Subscribe, encode
from tests.fixtures.wire import WireClient
from tests.security.gateway.house import ALONE, SHOWN, TWIN, role

# Seconds of the gateway's processor that an attack may cost, whatever else the machine does.
CHEAP_S = 1.0
BETWEEN_S = 0.05


class Neighbour:
    """Is answered again and again while a test attacks; meanwhile the gateway's own work is measured."""

    def __init__(self, house):
        self._connection = psycopg.connect(house.dsn_of(TWIN), autocommit=True)
        self._stop, self._pid, self.cost_s = threading.Event(), house.door.pid, 0.0
        self._thread = threading.Thread(target=self._ask)
        self.answers = 0

    def __enter__(self):
        self.cost_s = -self._spent_s()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.cost_s += self._spent_s()
        self._connection.close()
        assert self.answers > 0

    def _ask(self):
        while not self.answers or not self._stop.wait(BETWEEN_S):
            self._connection.execute("SELECT 1")
            self.answers += 1

    def _spent_s(self):
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(autouse=True)
def the_gateway_lives_on(house):
    pid = house.door.pid
    yield
    os.kill(pid, 0)
    with house.client(TWIN) as client:
        assert role(house.owner(client)) == TWIN


@pytest.mark.parametrize("setting", ["application_name", "search_path", "app.word", "TimeZone"])
@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1251", "SJIS"])
def test_a_client_of_another_encoding_is_refused_in_words(house, encoding, setting):
    with WireClient(house.dsn_of(ALONE, client_encoding=encoding)) as client:
        value = {"LATIN1": b"\xe9\xff", "WIN1251": b"\xc0\xff", "SJIS": b"\x83\x65"}[encoding]
        client.send(("Q", b"SET " + setting.encode() + b" = '" + value + b"'\0"))
        client.frames_to_ready()
        assert "SET client_encoding = 'UTF8'" in house.owner(client)
        client.query("RESET ALL; SET client_encoding = 'UTF8'")
        assert role(house.owner(client)) == ALONE


@pytest.mark.parametrize(
    ("subscribe", "words"),
    [
        (Subscribe("SELECT '" + "x" * 1_048_000 + "'"), "the query has 1048009 bytes, over the limit of 65536"),
        (Subscribe("SELECT '" + "é" * 40_000 + "'"), "over the limit of 65536"),
        (Subscribe("SELECT $1::text", (b"x" * 900_000,)), "the parameters have 900000 bytes"),
        (Subscribe("SELECT $1::text", (b"x",) * 5000), "there are 5000 parameters"),
        (Subscribe("SELECT id FROM shown", (), "id = " + "1" * 30_000), "the filter has"),
        (Subscribe("SELECT " + "(" * 60 + "1" + ")" * 60), "nests 60 levels"),
        (Subscribe("SELECT " + "NOT " * 500 + "true"), "levels, over the limit of 50"),
        (Subscribe("SELECT " + "- " * 500 + "1"), "levels, over the limit of 50"),
        (Subscribe("SELECT " + "CASE WHEN true THEN " * 60 + "1" + " END" * 60), "levels, over the limit of 50"),
        (Subscribe("SELECT " + "[" * 100), "levels, over the limit of 50"),
        (
            Subscribe("TABLE shown" + " UNION ALL TABLE pg_stat_activity" * 1900),
            "set operations, over the limit of 100",
        ),
        (Subscribe("SELECT id FROM shown", (), "(" * 60 + "true" + ")" * 60), "nests 60 levels"),
        (Subscribe("SELECT $1::text", (b"\xff",)), "parameter $1 is not UTF-8"),
        (Subscribe("SELECT $1::text", (b"a\0",)), "parameter $1 holds a NUL byte"),
    ],
    ids=lambda one: one[:30] if isinstance(one, str) else "",
)
def test_what_is_too_large_or_no_text_is_refused_in_a_sentence(house, subscribe, words):
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        assert words in house.owner(client, subscribe)
    assert neighbour.cost_s < CHEAP_S


@pytest.mark.parametrize("value", [" " * 20_000, ('"' * 2 + ",") * 6_000, "a," * 10_000, '"' + " " * 7_000 + '"'])
def test_a_hostile_search_path_freezes_nobody(house, value):
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        client.send(("Q", b"SELECT set_config('search_path', $x$public" + value.encode() + b"$x$, false)\0"))
        client.frames_to_ready()
        house.owner(client)
    assert neighbour.cost_s < CHEAP_S


@pytest.mark.parametrize("letters", ["-", "--", "-c", "-c ", "\\", "--a=", " "])
def test_hostile_options_before_the_log_in_freeze_nobody(house, letters):
    options = (letters * 9900)[:9900]
    fields = b"user\0nobody\0options\0" + options.encode() + b"\0\0"
    packet = struct.pack("!ii", len(fields) + 8, 196608) + fields
    with Neighbour(house) as neighbour:
        clients = [socket.create_connection(("127.0.0.1", house.door.port)) for _ in range(10)]
        for client in clients:
            client.sendall(packet)
        for client in clients:
            client.settimeout(10)
            client.recv(1000)
            client.close()
    assert neighbour.cost_s < CHEAP_S


def test_a_huge_parameter_status_is_passed_on_in_linear_time(house):
    """PostgreSQL 18 reports search_path; a value of 30 MB comes in some hundred pieces."""
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        client.send(SHOWN)
        house.outcome(client)
        value = b"a" * 50 + b", "
        client.send(("Q", b"SET search_path = " + value * 600_000 + b"public\0"))
        client.frames_to_ready()
        assert isinstance(house.owner(client), str)
    assert neighbour.cost_s < 2 * CHEAP_S


def test_a_flood_of_pauses_and_resumes_delays_nobody(house):
    """1.6 MB of them; what is over the rate is refused."""
    one = uuid4()
    flood = (encode(Pause(one)) + encode(Resume(one))) * 38_000
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        reader = threading.Thread(target=read_until_quiet, args=(client,))
        reader.start()
        client.send(flood)
        reader.join()
    assert neighbour.cost_s < CHEAP_S


def read_until_quiet(client):
    """Without looking at what comes, which would delay the neighbour in this very process."""
    with socket.socket(fileno=os.dup(client.fileno())) as same:
        same.settimeout(2.0)
        with contextlib.suppress(TimeoutError):
            while same.recv(1 << 20):
                pass


def test_messages_over_the_rate_are_told_so(house):
    one = uuid4()
    with house.client(ALONE) as client:
        client.send(*[Pause(one)] * 300)
        said = client.live(5)
        assert isinstance(said, Refused) and (said.subscription, said.message[:13]) == (one, "Rate limited:")


def test_a_hundred_subscribes_in_one_write_are_limited_without_delay(house):
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        client.send(encode(Subscribe("SELECT id FROM shown WHERE id = 1")) * 5_000)
        said = [client.live(5) for _ in range(4_990)]
    assert all(isinstance(one, Refused) and one.message.startswith("Rate limited") for one in said)
    assert neighbour.cost_s < CHEAP_S
    house.commands.clear()


def test_half_a_message_in_single_bytes_is_kept_in_linear_time(house):
    with house.client(ALONE) as client, Neighbour(house) as neighbour:
        data = encode_frame(0xF0, b"SELECT 1\0\0\0" + bytes(200_000))
        for at in range(0, len(data), 40):
            client.send(data[at : at + 40])
        assert isinstance(client.live(10), Refused)
    assert neighbour.cost_s < CHEAP_S
