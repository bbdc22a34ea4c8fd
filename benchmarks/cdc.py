"""The CDC door: catching up by one SSE stream against a bare Kafka consumer, and a commit until its event is read."""

import secrets
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from confluent_kafka import Consumer, TopicPartition

from proto.topics import CHANGES
from tests.fixtures.cdc import CdcStack, Sse, cdc_stack
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import start_postgres
from tests.fixtures.redis import start_redis

CHUNK = 256 * 1024


def run(*, rows: int, commits: int) -> None:
    """Prints the figures; ratios are within the run."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        with (
            start_postgres(home / "postgres") as postgres,
            start_kafka(home / "kafka") as kafka,
            start_redis(home / "redis") as redis,
        ):
            dsn = postgres.create_database(f"bench_{secrets.token_hex(4)}")
            settings = {"TIDEWIRE_CDC_RETENTION_EVENTS": str(10 * rows)}
            with cdc_stack(dsn, kafka, redis, home, **settings) as stack:
                _catch_up(stack, rows)
                _latency(stack, commits)


def _catch_up(stack: CdcStack, rows: int) -> None:
    service, table = stack.service(), stack.table("id int PRIMARY KEY, name text, n int")
    sub = service.result("cdc.subscribe_table", db=stack.database, table=table, format="plain_json")
    for first in range(1, rows, 10_000):
        stack.sql(f"INSERT INTO {table} SELECT i, 'name ' || i, i FROM generate_series({first}, {first + 9999}) i")
    for _ in stack.captured.each_event_up_to_now():
        pass
    gateway = psutil.Process(stack.gateways[-1].pid)
    began, cpu_s = time.monotonic(), _cpu_s(gateway)
    with service.sse(sub["sub_id"], f"?from_offset={sub['offset']}") as stream:
        seen, rest = 0, b""
        while seen < rows:
            chunk = rest + stream.answer.read1(CHUNK)
            seen += chunk.count(b"event: insert")
            rest = chunk[-12:] if not chunk.endswith(b"\n\n") else b""
            seen -= rest.count(b"event: insert")
    streamed_s, cpu_s = time.monotonic() - began, _cpu_s(gateway) - cpu_s
    bare_s = _bare(stack, rows)
    print(f"catch-up of {rows} events by one SSE stream: {rows / streamed_s:,.0f} events/s")
    print(f"  {rows / cpu_s:,.0f} events for a second of the gateway's CPU, which a loaded machine does not change")
    print(f"  a bare confluent-kafka consumer of the same records: {rows / bare_s:,.0f} events/s")
    print(f"  ratio {bare_s / streamed_s:.3f}")


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


def _bare(stack: CdcStack, rows: int) -> float:
    kafka = stack.captured.kafka
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "bare", "enable.auto.commit": False})
    partition = TopicPartition(kafka.broker_name(CHANGES.name), 0)
    _, high = consumer.get_watermark_offsets(partition)
    began = time.monotonic()
    consumer.assign([TopicPartition(partition.topic, 0, 0)])
    position = 0
    while position < high:
        for message in consumer.consume(500, 1.0):
            position = (message.offset() or 0) + 1
    consumer.close()
    return time.monotonic() - began


def _latency(stack: CdcStack, commits: int) -> None:
    service, table = stack.service(), stack.table("id int PRIMARY KEY")
    sub = service.result("cdc.subscribe_table", db=stack.database, table=table, format="plain_json")
    took_ms: list[float] = []
    with service.sse(sub["sub_id"]) as stream:
        _one(stack, stream, table, 0)
        for number in range(1, commits + 1):
            took_ms.append(1000 * _one(stack, stream, table, number))
            time.sleep(0.02)
    took_ms.sort()
    p99 = took_ms[int(0.99 * len(took_ms)) - 1]
    p50 = statistics.median(took_ms)
    print(f"a commit's return until its event is read by SSE, idle: p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def _one(stack: CdcStack, stream: Sse, table: str, number: int) -> float:
    stack.sql(f"INSERT INTO {table} VALUES ({number})")
    began = time.monotonic()
    event = stream.next()
    assert event is not None and event.data["pk"] == [number], event
    return time.monotonic() - began
