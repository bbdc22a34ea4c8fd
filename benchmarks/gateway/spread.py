"""One delta to a thousand subscriptions, against a bare uvloop server that writes the same bytes to as many sockets.

The benchmark itself plays the other services: it answers each Subscribe with a first result in `deliveries`, and then
writes the deltas there.
"""

import asyncio
import subprocess
import sys
import time
from statistics import median
from uuid import UUID

import psycopg
import uvloop

from benchmarks.gateway.bench import Bench, started
from benchmarks.gateway.tally import Clients, Tally
from proto.multiset import EMPTY, shifted
from proto.pgwire.live import Data, Subscribe, Update, encode
from proto.rows import encode_block
from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    FULL_REASON_FIRST,
    Delta,
    DeltaRecord,
    Snapshot,
)
from proto.topics import COMMANDS, DELIVERIES
from services.chassis.kafka import Kafka, Reader, Writer
from services.devstack.ports import free_port

CONNECTIONS, EACH, ROUNDS, ROWS = 100, 10, 200, 10
QUERY_ID = bytes(range(16))
ROW = tuple(b"%d" % column * 8 for column in range(1, 6))


def rows_of(number: int) -> list[tuple[tuple[bytes, ...], int]]:
    return [((b"%08d" % (number * ROWS + at), *ROW), 1) for at in range(ROWS)]


class OtherServices:
    """Registry, recompute and fanout in one, for one query."""

    def __init__(self, kafka: Kafka) -> None:
        self._commands = Reader(kafka, COMMANDS.name, client_id="spread")
        self._commands.seek_to(0)
        self._deliveries = Writer(kafka, DELIVERIES.name, client_id="spread", partition=0)
        self._gateway, self._hash, self._at = "", EMPTY, 0

    def answer(self, wanted: int) -> None:
        """Every subscribe gets an empty first result."""
        answered = 0
        while answered < wanted:
            for message in self._commands.read(500, 1.0):
                command = COMMANDS.decode(message.value() or b"")
                if command.HasField("subscribe"):
                    self._gateway = command.gateway_id
                    result = Delta(
                        query_id=QUERY_ID,
                        to_lsn=1,
                        history=1,
                        kind=DELTA_KIND_FULL,
                        full_reason=FULL_REASON_FIRST,
                        last=True,
                        state_hash=EMPTY,
                        key_positions=[0],
                    )
                    snapshot = Snapshot(
                        request_id=command.subscribe.subscription_id, gateway_id=self._gateway, result=result
                    )
                    self._send(DeltaRecord(epoch=1, writer=1, snapshot=snapshot))
                    answered += 1
        self._deliveries.flush(10)
        self._at = 1

    def tell(self, number: int) -> None:
        """One more delta: some rows more."""
        rows = rows_of(number)
        self._hash = shifted(self._hash, rows)
        delta = Delta(
            query_id=QUERY_ID,
            from_lsn=self._at,
            to_lsn=self._at + 1,
            history=1,
            kind=DELTA_KIND_NET,
            last=True,
            rows=encode_block(rows),
            state_hash=self._hash,
            row_count=(number + 1) * ROWS,
            key_positions=[0],
        )
        self._at += 1
        self._send(DeltaRecord(epoch=1, writer=1, delta=delta))

    def flush(self) -> None:
        self._deliveries.flush(10)

    def close(self) -> None:
        self._commands.close()
        self._deliveries.close()

    def _send(self, record: DeltaRecord) -> None:
        self._deliveries.send(Delivery(gateway_id=self._gateway, delta=record).SerializeToString(), key=QUERY_ID)


def message_bytes() -> int:
    return len(encode(Data(UUID(int=0), Update.INSERT, tuple(row for row, _ in rows_of(0)))))


async def _through_gateway(bench: Bench, clients: Clients) -> tuple[float, float]:
    others, a_round = OtherServices(Kafka(bootstrap=bench.kafka)), CONNECTIONS * EACH * message_bytes()
    tally = Tally()
    await clients.counted_by(tally)
    clients.send(encode(Subscribe("SELECT * FROM spread")) * EACH)
    await asyncio.to_thread(others.answer, CONNECTIONS * EACH)
    await tally.quiet()
    singles = []
    for number in range(30):
        tally.expect(a_round)
        began_s = time.perf_counter()
        others.tell(number)
        await tally.arrival()
        singles.append(time.perf_counter() - began_s)
    tally.expect(a_round * ROUNDS)
    began_s = time.perf_counter()
    for number in range(30, 30 + ROUNDS):
        others.tell(number)
    await tally.arrival()
    took_s = time.perf_counter() - began_s
    others.close()
    return took_s, median(singles[10:])


async def _through_bare(port: int) -> tuple[float, float]:
    loop, a_round = asyncio.get_running_loop(), CONNECTIONS * EACH * message_bytes()
    tally = Tally()
    for _ in range(CONNECTIONS):
        await loop.create_connection(tally.protocol, "127.0.0.1", port)
    _, control = await asyncio.open_connection("127.0.0.1", port)
    singles = []
    for rounds in [1] * 30 + [ROUNDS]:
        tally.expect(a_round * rounds)
        began_s = time.perf_counter()
        control.write(b"%04d" % rounds)
        await tally.arrival()
        singles.append(time.perf_counter() - began_s)
    return singles[-1], median(singles[10:-1])


def run() -> None:
    settings = {
        "TIDEWIRE_GATEWAY_SUBSCRIBES_PER_S": "100000",
        "TIDEWIRE_GATEWAY_SUBSCRIBES_UNDER_WAY": "100000",
        "TIDEWIRE_GATEWAY_SUBSCRIBE_TIMEOUT_S": "300",
        "TIDEWIRE_GATEWAY_DELIVERY_PARTITION": "0",
        "TIDEWIRE_GATEWAY_MAX_ROWS": "1000000",
    }
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.gateway.bare", str(port), str(EACH), str(message_bytes())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bare:
        try:
            assert bare.stdout is not None and bare.stdout.readline() == "ready\n"
            bare_s, bare_one_s = uvloop.run(_through_bare(port))
        finally:
            bare.terminate()
    with started() as bench, bench.gateway(settings) as gateway:
        with psycopg.connect(bench.server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE spread (id text PRIMARY KEY, a text, b text, c text, d text, e text)")
        dsn = psycopg.conninfo.make_conninfo(bench.server.dsn, port=gateway)
        clients = Clients(dsn, CONNECTIONS)
        ours_s, ours_one_s = uvloop.run(_through_gateway(bench, clients))
        clients.close()
    messages = CONNECTIONS * EACH * ROUNDS
    print(
        f"{ROUNDS} deltas to {CONNECTIONS * EACH} subscriptions: bare server {messages / bare_s:,.0f} messages/s, "
        f"gateway {messages / ours_s:,.0f}/s, ratio {bare_s / ours_s:.2f}  (≥ 0.5)\n"
        f"one delta until the last has it: bare server {bare_one_s * 1000:.1f} ms, "
        f"gateway, with Kafka before it, {ours_one_s * 1000:.1f} ms",
        flush=True,
    )
