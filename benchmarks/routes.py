"""Durable topics: committed changes a second into a topic, without and with a WHERE, beside a bare Kafka producer."""

import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import Producer

from services.chassis.kafka import Kafka
from services.recompute.inbound.topic_states import standing
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import start_postgres
from tests.integration.routes.stack import PARTITIONS, RoutesStack

CHUNK = 10_000
TABLE = "create schema app; create table app.orders (id int primary key, total int, note text)"


def run(*, rows: int) -> None:
    """Prints the figures; ratios are within the run."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        with start_postgres(home / "postgres") as postgres, start_kafka(home / "kafka") as kafka:
            dsn = postgres.create_database(f"bench_{secrets.token_hex(4)}")
            stack = RoutesStack(dsn, kafka.bootstrap, "bench.", home)
            try:
                stack.db.execute(TABLE)
                bare = _bare(stack.kafka, rows)
                print(f"a bare confluent-kafka producer, records of 250 bytes: {bare:,.0f} records/s")
                for name, expression in (("app.all", None), ("app.some", "(total % 2 = 0 and note like 'note%')")):
                    rate = _routed(stack, name, expression, rows)
                    print(f"routed, {'no WHERE' if expression is None else expression}: {rate:,.0f} changes/s")
                    print(f"  ratio to the bare producer {rate / bare:.3f}")
            finally:
                stack.end()


def _routed(stack: RoutesStack, topic: str, expression: str | None, rows: int) -> float:
    """The rate at which a worker that was away catches up: what it can sustain."""
    stack.stop_workers()
    stack.db.execute("truncate app.orders")
    stack.create(topic)
    stack.route(topic, "orders", "Insert", "Full", **({} if expression is None else {"filter_expr": expression}))
    for first in range(0, rows, CHUNK):
        stack.db.execute(
            f"insert into app.orders select n, n, 'note ' || n from generate_series({first + 1}, {first + CHUNK}) n"
        )
    wanted = rows if expression is None else rows // 2
    stack.start()
    while not (first := _count(stack, topic)):
        time.sleep(0.02)
    began_s = time.monotonic()
    while (found := _count(stack, topic)) < wanted:
        time.sleep(0.02)
    rate = (found - first) / (time.monotonic() - began_s)
    stack.drop_all()
    return rate if expression is None else rate * 2


def _count(stack: RoutesStack, topic: str) -> int:
    found = [standing(stack.kafka, number) for number in range(PARTITIONS)]
    return sum(sum(state.next_offsets) for one in found for key, state in one.topics.items() if key.startswith(topic))


def _bare(kafka: Kafka, rows: int) -> float:
    producer = Producer({**kafka.client_config(), "linger.ms": 5, "compression.type": "lz4", "acks": "all"})
    began_s = time.monotonic()
    for number in range(rows):
        while True:
            try:
                producer.produce(kafka.broker_name("commands"), b"x" * 250, str(number).encode())
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return rows / (time.monotonic() - began_s)
