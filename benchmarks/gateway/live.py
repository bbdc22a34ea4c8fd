"""The whole stack: from a commit to the last of a thousand subscriptions, and what a subscription costs in memory."""

import asyncio
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

import psutil
import psycopg
import pyarrow as pa
import uvloop

from benchmarks.gateway.tally import Clients, Tally
from proto.pgwire.live import PartialData, PartialRow, Subscribe, encode
from services.recompute.outbound.spark.session import Spark
from services.recompute.settings import Recompute
from tests.fixtures.full_stack import FullStack, running_stack
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import start_postgres

CONNECTIONS, EACH, MORE = 100, 10, 40  # the limit is a hundred of one connection
COMMITS, WARM_UP = 60, 30
SHOP = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, amount numeric(10,2) NOT NULL, status text NOT NULL);
INSERT INTO orders SELECT i, i % 10000, 100, 'new' FROM generate_series(1, 1000000) i;
ANALYZE orders;
"""
ASK = encode(Subscribe("SELECT id, status, amount FROM orders WHERE customer = 4711"))
SETTINGS = {
    "TIDEWIRE_GATEWAY_SUBSCRIBES_PER_S": "100000",
    "TIDEWIRE_GATEWAY_SUBSCRIBES_UNDER_WAY": "100000",
    "TIDEWIRE_GATEWAY_SUBSCRIBE_TIMEOUT_S": "300",
    "TIDEWIRE_REGISTRY_SUBSCRIBES_PER_S": "100000",
    # What users get.
    "TIDEWIRE_RECOMPUTE_MASTER": "local[*]",
    "TIDEWIRE_RECOMPUTE_JAVA_OPTIONS": "-XX:+UseSerialGC",
}


def run() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"fsync": "on", "max_connections": "300"}
        with (
            start_postgres(folder / "postgres", settings=settings) as server,
            start_kafka(folder / "kafka") as broker,
            running_stack(server, broker, folder, **SETTINGS) as stack,
            psycopg.connect(stack.dsn, autocommit=True) as writer,
        ):
            writer.execute(SHOP.encode())
            clients = Clients(stack.gateway_dsn, CONNECTIONS)
            uvloop.run(_measure(stack, writer, clients))
            clients.close()


async def _measure(stack: FullStack, writer: psycopg.Connection, clients: Clients) -> None:
    own = Recompute()
    spark = Spark(master=own.master, driver_memory=own.driver_memory, java_options=own.java_options)
    tally = Tally()
    await clients.counted_by(tally)
    await _subscribe(stack, clients, tally, EACH)
    told, bare = [], []
    for number in range(WARM_UP + COMMITS):
        tally.expect(CONNECTIONS * EACH * len(_message(number)))
        writer.execute("UPDATE orders SET amount = %s WHERE id = 4711", [200 + number])
        began_s = time.perf_counter()
        await tally.arrival()
        told.append((time.perf_counter() - began_s) * 1000)
        bare.append(_bare_ms(spark, number))
    ours, reference = median(told[WARM_UP:]), median(bare[WARM_UP:])
    print(
        f"commit until the last of {CONNECTIONS * EACH} subscriptions has it: p50 {ours:.1f} ms, bare warm Spark job "
        f"{reference:.1f} ms, ratio {ours / reference:.2f}  (≤ 3)",
        flush=True,
    )
    # The first of them also find room for the storm itself, which the next need not.
    await _subscribe(stack, clients, tally, MORE)
    before_bytes = _memory(stack)
    await _subscribe(stack, clients, tally, MORE)
    after_bytes = _memory(stack)
    each = {name: (after_bytes[name] - before_bytes[name]) / (CONNECTIONS * MORE) / 1024 for name in before_bytes}
    parts = ", ".join(f"{name} {size:.2f}" for name, size in each.items())
    grown = sum(size for size in each.values() if size > 0)  # what shrank meanwhile has other reasons
    print(f"memory of a subscription, KiB over all services that grew: {grown:.2f} ({parts})  (≤ 5)", flush=True)


def _message(number: int) -> bytes:
    """What each subscription is sent: one column of three has changed."""
    row = PartialRow(3, {0: b"4711", 2: b"%d.00" % (200 + number)})
    return encode(PartialData(UUID(int=0), (row,)))


async def _subscribe(stack: FullStack, clients: Clients, tally: Tally, each: int) -> None:
    wanted = stack.metrics("gateway")["vibesql_subscriptions_active"] + each * CONNECTIONS
    began_s = time.perf_counter()
    clients.send(ASK * each)
    while stack.metrics("gateway").get('vibesql_subscription_updates_total{type="full"}', 0) < wanted:
        await asyncio.sleep(0.1)
    await tally.quiet()
    print(f"{each * CONNECTIONS} subscribes answered in {time.perf_counter() - began_s:.1f} s", flush=True)


def _bare_ms(spark: Spark, number: int) -> float:
    """The least that a job over the changed row takes: bring it to Spark, filter, bring the answer back."""
    began_s = time.perf_counter()
    row = pa.table({"c0": [4711], "c1": [4711], "c2": [f"{200 + number}.00"], "c3": ["new"]})
    spark.small.createDataFrame(row).where("c1 = 4711").select("c0", "c3", "c2").toArrow()
    return (time.perf_counter() - began_s) * 1000


def _memory(stack: FullStack) -> dict[str, int]:
    """The proportional set size of each service with what it started."""
    sizes = {}
    for name, process in stack.processes.items():
        top = psutil.Process(process.pid)
        sizes[name] = sum(one.memory_full_info().pss for one in (top, *top.children(recursive=True)))
    return sizes
