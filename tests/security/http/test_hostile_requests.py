"""Requests that are too slow, too large, for somebody else, or no HTTP at all cost a bounded amount."""

import asyncio
import http.client
import json
import socket
import time

import pytest
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from tests.fixtures.http_port import WHOAMI, answer_of, basic
from tests.fixtures.http_roles import PASSWORD
from tests.fixtures.waiting import wait_until


class TestDoor:
    """Routes that read a body, fail, and answer without end."""

    __test__ = False

    def __init__(self):
        self.router = APIRouter()
        self.chunks = 0

        @self.router.post("/echo")
        async def echo(request: Request):
            return {"bytes": len(await request.body())}

        @self.router.post("/typed")
        async def typed(body: dict[str, int]):
            return body

        @self.router.get("/fails")
        async def fails():
            raise ZeroDivisionError("secret detail")

        @self.router.get("/endless")
        async def endless():
            async def chunks():
                while True:
                    self.chunks += 1
                    yield b"x" * 65536
                    await asyncio.sleep(0)

            return StreamingResponse(chunks())


class Raw:
    """A client that writes bytes and reads what comes."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(20)
        self.socket.connect(("127.0.0.1", port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, text: str) -> "Raw":
        self.socket.sendall(text.encode())
        return self

    def rest(self) -> bytes:
        """All until the server hangs up."""
        parts = []
        try:
            while part := self.socket.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def answer(self):
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return answer_of(response)


HEAD = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", ["", "GET", HEAD, HEAD + "X: y"], ids=["nothing", "a word", "half a head", "a line"])
def test_a_request_that_does_not_arrive_in_time_is_told_so_and_ended(http_port, sent):
    port = http_port(receive_timeout_s=0.5)
    with Raw(port.port) as client:
        began = time.monotonic()
        rest = client.send(sent).rest()
    assert (
        rest.startswith(b"HTTP/1.1 408 ") and json.loads(rest.partition(b"\r\n\r\n")[2])["error"]["code"] == "timeout"
    )
    assert 0.4 < time.monotonic() - began < 5


def test_a_head_that_comes_byte_by_byte_has_no_more_time(http_port):
    port = http_port(receive_timeout_s=0.5)
    with Raw(port.port) as client:
        began, ended = time.monotonic(), False
        while not ended and time.monotonic() - began < 10:
            try:
                client.send("a")
                time.sleep(0.05)
            except OSError:
                ended = True
    assert ended and time.monotonic() - began < 5


def test_a_body_that_does_not_arrive_in_time_is_told_so_and_ended(http_port):
    port = http_port(receive_timeout_s=0.5, doors=(TestDoor(),))
    with Raw(port.port) as client:
        client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf")
        answer = client.answer()
        assert (answer.status, answer.code) == (408, "timeout")
        assert client.rest() == b""


def test_a_body_that_nobody_reads_cannot_hold_the_connection(http_port):
    port = http_port(receive_timeout_s=0.5)
    with Raw(port.port) as client:
        client.send(HEAD + "Content-Length: 1000\r\n\r\nhalf")
        assert client.answer().status == 401
        began = time.monotonic()
        assert client.rest() == b"" and time.monotonic() - began < 5


def test_an_idle_connection_is_closed(http_port):
    port = http_port(keep_alive_s=1)
    with Raw(port.port) as client:
        assert client.send(HEAD + "\r\n").answer().status == 401
        began = time.monotonic()
        assert client.rest() == b"" and time.monotonic() - began < 5


def test_a_connection_serves_one_request_after_the_other(http_port):
    port = http_port(receive_timeout_s=0.5)
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=10)
    for _ in range(5):
        connection.request("GET", WHOAMI, headers=basic("alice", PASSWORD))
        assert answer_of(connection.getresponse()).status == 200
    connection.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_body_that_is_too_large_is_refused(http_port, chunked):
    port = http_port(body_bytes=100_000, doors=(TestDoor(),))
    sizes = {99_999: 200, 100_000: 200, 100_001: 413, 3_000_000: 413}
    for size, status in sizes.items():
        connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=10)
        pieces = (b"x" * min(50_000, size - start) for start in range(0, size, 50_000))
        connection.request(
            "POST",
            "/echo",
            body=pieces if chunked else b"x" * size,
            encode_chunked=chunked,
            headers={"Transfer-Encoding": "chunked"} if chunked else {},
        )
        answer = answer_of(connection.getresponse())
        connection.close()
        assert answer.status == status, (size, answer)
        if status == 413:
            assert answer.code == "too_large"


@pytest.mark.parametrize(
    "head",
    [
        "X-Long: " + "x" * 20_000,
        "\r\n".join(f"X-{number}: y" for number in range(4000)),
        "Authorization: Bearer " + "x" * 20_000,
    ],
    ids=["one", "many", "token"],
)
def test_headers_that_are_too_large_are_refused(http_port, head):
    with Raw(http_port().port) as client:
        answer = client.send(HEAD + head + "\r\n\r\n").answer()
    assert (answer.status, answer.code) == (431, "too_large")


@pytest.mark.parametrize(
    "sent",
    [
        "\x16\x03\x01\x02\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n X: folded\r\nbad header\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["tls", "two hosts", "two lengths", "negative length", "bad header", "no host"],
)
def test_what_is_no_http_is_refused_in_the_one_shape(http_port, sent):
    with Raw(http_port().port) as client:
        answer = client.send(sent).answer()
    assert (answer.status, answer.code) == (400, "invalid_request")


def test_a_length_and_chunks_together_smuggle_nothing(http_port):
    """The chunks count, and what follows them is a request of its own, or the connection ends."""
    port = http_port(doors=(TestDoor(),))
    with Raw(port.port) as client:
        client.send(
            "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        first = client.answer()
    assert first.status == 400 or first.body == {"bytes": 0}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 401),
        ("localhost:8081", 401),
        ("127.0.0.1", 401),
        ("LOCALHOST.", 401),
        ("[::1]:80", 401),
        ("tidewire.example", 401),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("tidewire.example.evil", 421),
        ("10.0.0.1", 421),
        ("localhost@evil.example", 421),
        ("localhost, evil.example", 421),
        ("", 421),
        ("0x7f.1", 421),
    ],
)
def test_a_host_that_is_not_ours_is_refused_also_on_loopback(http_port, host, status):
    port = http_port(hosts=("tidewire.example",))
    assert port.ask(headers={"Host": host}).status == status


@pytest.mark.parametrize("path", [WHOAMI, "/api/v1/openapi.json", "/nothing"])
def test_a_rebound_name_reaches_no_route(http_port, path):
    answer = http_port().ask(path, headers={"Host": "rebound.evil.example"} | basic("alice", PASSWORD))
    assert (answer.status, answer.code) == (421, "misdirected")


def test_a_request_of_http_1_0_without_a_host_is_refused(http_port):
    with Raw(http_port().port) as client:
        assert client.send("GET /api/v1/whoami HTTP/1.0\r\n\r\n").answer().status == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "file://"}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://evil@localhost"}, 403),
        ({"Origin": "https://app.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 200),
    ],
    ids=str,
)
def test_pages_of_other_origins_are_refused_by_default(http_port, headers, status):
    answer = http_port().ask(headers={"Host": "localhost"} | basic("alice", PASSWORD) | headers)
    assert answer.status == status
    assert "access-control-allow-origin" not in answer.headers


def test_origins_of_the_setting_may_call_and_are_told_so(http_port):
    port = http_port(cors_origins=("https://app.example",))
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET"}
    preflight = port.ask(method="OPTIONS", headers=asked | {"Access-Control-Request-Headers": "authorization"})
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert "access-control-allow-credentials" not in preflight.headers
    real = port.ask(headers={"Origin": "https://app.example"} | basic("alice", PASSWORD))
    assert (real.status, real.headers["access-control-allow-origin"]) == (200, "https://app.example")
    other = port.ask(method="OPTIONS", headers=asked | {"Origin": "https://evil.example"})
    assert (other.status, "access-control-allow-origin" in other.headers) == (403, False)


def test_a_websocket_of_another_origin_is_refused(http_port):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    port = http_port()
    assert port.ask("/ws/x", headers=upgrade | {"Origin": "https://evil.example"}).status == 403
    assert port.ask("/ws/x", headers=upgrade | {"Host": "evil.example"}).status == 403


def test_a_fault_of_ours_tells_nothing_of_itself(http_port):
    port = http_port(doors=(TestDoor(),))
    answer = port.ask("/fails")
    assert (answer.status, answer.code, "secret" in str(answer.body)) == (500, "internal", False)

    def errors() -> list[str]:
        return [event["event"] for event in port.events if event["level"] == "error"]

    wait_until(errors, "the error is logged behind the answer", 10)
    assert errors() == ["http_request_failed"]
    assert port.ask(headers=basic("alice", PASSWORD)).status == 200


def test_a_body_of_another_form_is_told_where_it_is_wrong_without_its_values(http_port):
    port = http_port(doors=(TestDoor(),))
    json_type = {"Content-Type": "application/json"}
    wrong = port.ask("/typed", method="POST", body='{"a": "hunter2"}', headers=json_type)
    assert (wrong.status, wrong.code) == (400, "invalid_request")
    assert wrong.body["error"]["details"]["problems"][0]["at"] == ["body", "a"]
    assert "hunter2" not in str(wrong.body)
    assert port.ask("/typed", method="POST", body="{", headers=json_type).code == "invalid_request"


def test_an_answer_that_takes_too_long_is_given_up(http_port):
    door = TestDoor()
    port = http_port(request_timeout_s=0.5, unread_timeout_s=60, doors=(door,))
    with Raw(port.port) as client:
        client.send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.rest()  # ends, since the server hangs up
    assert port.ask(headers=basic("alice", PASSWORD)).status == 200


def test_an_answer_that_is_not_read_is_broken_off(http_port):
    door = TestDoor()
    port = http_port(request_timeout_s=60, unread_timeout_s=0.5, doors=(door,))
    with Raw(port.port, receive_buffer=4096) as client:
        client.send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: any(event["event"] == "http_answered" for event in port.events), lambda: door.chunks, 10)
    assert door.chunks < 1000


def test_connections_over_the_limit_are_told_so(http_port):
    port = http_port(connections=3, connections_per_address=100)
    first = [Raw(port.port).send(HEAD + "\r\n") for _ in range(3)]
    assert [client.answer().status for client in first] == [401] * 3
    with Raw(port.port) as client:
        answer = client.answer()
        assert (answer.status, answer.code) == (503, "unavailable")
    for client in first:
        client.socket.close()
    wait_until(lambda: port.ask().status == 401, "room again", 10)


def test_one_address_cannot_take_all_connections(http_port):
    port = http_port(connections=100, connections_per_address=2)
    held = [Raw(port.port).send(HEAD + "\r\n") for _ in range(2)]
    assert [client.answer().status for client in held] == [401] * 2
    with Raw(port.port) as client:
        assert client.answer().status == 503
    for client in held:
        client.socket.close()
