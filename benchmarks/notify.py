"""The NOTIFY door: idle WebSockets on one gateway and one delta to all of them, beside a bare server."""

import asyncio
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import uvloop

from services.capture.outbound import watch
from services.devstack.ports import free_port
from tests.fixtures.gateway import start_gateway
from tests.fixtures.http_port import SECRET, token
from tests.fixtures.kafka import start_kafka
from tests.fixtures.notify_worker import NotifyWorker
from tests.fixtures.postgres import start_postgres

QUERY_ID, PREFIX = "watched", "bench."
WELCOME = f'{{"type":"subscribed","query_id":"{QUERY_ID}"}}'
ROUNDS, AT_ONCE = 5, 50
WITHIN_S = 300.0
# A delta of some rows, shorter than a NOTIFY may be.
WORDS = "w" * 1000


class Client(asyncio.Protocol):
    """Counts the bytes of its frames, and reads nothing of them: all clients share a process with the stopwatch."""

    def __init__(self, crowd: "Crowd") -> None:
        self._crowd, self._head, self._bytes = crowd, b"", 0
        self._is_open = False

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            self._head += data
            head, separator, data = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            assert b" 101 " in head, head
            self._is_open, self._head = True, b""
        before, self._bytes = self._bytes, self._bytes + len(data)
        if before < self._crowd.wanted_bytes <= self._bytes:
            self._crowd.served()


class Crowd:
    """So many clients of one server; `wanted_bytes` is what each has had when it has been served."""

    def __init__(self, port: int, count: int, headers: str) -> None:
        self._port, self._count, self._headers = port, count, headers
        self._transports: list[asyncio.BaseTransport] = []
        self.wanted_bytes = _frame_bytes(WELCOME)
        self._missing, self._done = count, asyncio.Event()

    def served(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._done.set()

    async def come(self) -> None:
        slots = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._one(slots) for _ in range(self._count)))
        await self._all()

    async def told(self, tell: Callable[[], str]) -> float:
        """Seconds from telling until the last one has it."""
        began = time.monotonic()
        self._missing, self._done = self._count, asyncio.Event()
        # Nobody is served before the loop turns.
        self.wanted_bytes += _frame_bytes(tell())
        await self._all()
        return time.monotonic() - began

    def leave(self) -> None:
        for transport in self._transports:
            transport.close()

    async def _one(self, slots: asyncio.Semaphore) -> None:
        async with slots:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(lambda: Client(self), "127.0.0.1", self._port)
            key = "dGhlIHNhbXBsZSBub25jZQ=="
            transport.write(
                f"GET /ws/{QUERY_ID} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{self._headers}\r\n".encode()
            )
            self._transports.append(transport)

    async def _all(self) -> None:
        async with asyncio.timeout(WITHIN_S):
            await self._done.wait()


def run(*, sockets: int) -> None:
    """Prints the figures; ratios are within the run."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        with start_postgres(home / "postgres") as postgres, start_kafka(home / "kafka") as kafka:
            dsn, port = postgres.create_database(f"bench_{secrets.token_hex(4)}"), free_port()
            with psycopg.connect(dsn, autocommit=True) as connection:
                watch.install(connection)
                statement = "SELECT pgr.subscribe(%s::text, 'SELECT 1 AS id')"
                [answer] = connection.execute(statement, [QUERY_ID]).fetchone() or [{}]
            settings = {
                "http_port": str(port),
                "http_jwt_secret": SECRET,
                "http_connections": str(2 * sockets),
                "http_connections_per_address": str(2 * sockets),
            }
            with start_gateway(home, dsn=dsn, kafka=kafka.bootstrap, prefix=PREFIX, settings=settings) as gateway:
                worker = NotifyWorker(kafka.bootstrap, PREFIX)
                ours = _measured(port, sockets, gateway.pid, lambda: worker.delta(QUERY_ID, answer["gen"], w=WORDS))
                worker.close()
    bare = _bare(sockets, worker)
    _print("the gateway", sockets, *ours)
    _print("a bare server of `websockets` on uvloop", sockets, *bare)
    print(f"  ratio {min(bare[1]) / min(ours[1]):.2f}")


def _measured(port: int, sockets: int, pid: int, tell: Callable[[], str]) -> tuple[float, list[float]]:
    """KiB of the server for each socket, and the seconds of each round."""

    async def measure() -> tuple[float, list[float]]:
        bearer = token({"exp": time.time() + 3600, "sub": "bench"})
        crowd = Crowd(port, sockets, f"Authorization: Bearer {bearer}\r\n")
        server = psutil.Process(pid)
        before = server.memory_info().rss
        await crowd.come()
        each_kib = (server.memory_info().rss - before) / sockets / 1024
        took_s = [await crowd.told(tell) for _ in range(ROUNDS)]
        crowd.leave()
        return each_kib, took_s

    return uvloop.run(measure())


def _bare(sockets: int, worker: NotifyWorker) -> tuple[float, list[float]]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.notify_bare", str(port), WELCOME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        stdin = server.stdin

        def tell() -> str:
            worker.seq += 1
            row = f'{{"id":{worker.seq},"w":"{WORDS}"}}'
            text = f'{{"query_id":"{QUERY_ID}","seq":{worker.seq},"gen":1,"inserted":[{row}],"deleted":[]}}'
            stdin.write(text + "\n")
            stdin.flush()
            return text

        try:
            return _measured(port, sockets, server.pid, tell)
        finally:
            server.kill()


def _print(what: str, sockets: int, each_kib: float, took_s: list[float]) -> None:
    listed = ", ".join(f"{1000 * one:.0f}" for one in took_s)
    print(f"{what}: {sockets} idle WebSockets, {each_kib:.1f} KiB each; one delta to all, ms to the last: {listed}")


def _frame_bytes(text: str) -> int:
    """Of an unmasked frame that a server sends."""
    length = len(text.encode())
    return length + (2 if length < 126 else 4 if length < 65536 else 10)
