"""One stack for the folder: a database with its capture, and a gateway; the test plays recompute."""

import json
import secrets
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation, TopicPayload
from tests.fixtures.cdc import Caller, CdcStack, cdc_stack
from tests.fixtures.http_port import Answer, ask


@pytest.fixture(scope="package")
def stack(postgres_server, kafka, redis_server, tmp_path_factory):
    name = f"topics_{secrets.token_hex(5)}"
    dsn = postgres_server.create_database(name)
    with cdc_stack(
        dsn, kafka, redis_server, tmp_path_factory.mktemp("topics"), TIDEWIRE_TOPICS_VISIBILITY_TIMEOUT_SECS="8"
    ) as made:
        made.sql("CREATE SCHEMA app")
        made.sql("CREATE TABLE app.orders (id int PRIMARY KEY, note text)")
        yield made
    postgres_server.drop_database(name)


class WrittenTopic:
    """A topic of the test's own, defined in PostgreSQL, with messages as recompute would write them."""

    def __init__(self, stack: CdcStack, partitions: int = 1) -> None:
        self.stack, self.name = stack, f"app.t_{secrets.token_hex(5)}"
        asked = {"do": "CREATE TOPIC", "topic": self.name, "schema": "app", "partitions": partitions, "at": {}}
        stack.sql("CALL _tidewire_topics.statement(%s)", json.dumps(asked))
        kafka = stack.captured.kafka
        self.kafka_name = kafka.broker_name(f"topic.{self.name}")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        made = admin.create_topics([NewTopic(self.kafka_name, num_partitions=partitions, replication_factor=1)])
        made[self.kafka_name].result(30)
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "transactional.id": self.name, "linger.ms": 0, "acks": "all"}
        )
        self._producer.init_transactions(30)
        self._next = dict.fromkeys(range(partitions), 0)
        for partition in range(partitions):
            self._write([TopicMessage(topic_id=self.name, partition=partition)])

    def write(self, count: int, *, partition: int = 0, a_transaction: int = 1_000) -> None:
        """So many messages, some to a transaction: Kafka's offsets get gaps where each ends."""
        while count:
            some = min(count, a_transaction)
            self._write([self._message(partition) for _ in range(some)])
            count -= some

    def clear(self, partition: int = 0) -> None:
        """The mark that stands where CLEAR TOPIC was committed."""
        self._write([TopicMessage(topic_id=self.name, partition=partition, offset=self._next[partition])])

    def _message(self, partition: int) -> TopicMessage:
        offset = self._next[partition]
        self._next[partition] += 1
        return TopicMessage(
            topic_id=self.name,
            partition=partition,
            offset=offset,
            committed_us=1_730_000_000_000_000,
            source_schema="app",
            source_table="orders",
            operation=TopicOperation.TOPIC_OPERATION_INSERT,
            payload_mode=TopicPayload.TOPIC_PAYLOAD_KEY,
            payload=json.dumps({"id": offset}).encode(),
            key=str(offset),
            user="keeper",
        )

    def _write(self, messages: list[TopicMessage]) -> None:
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self.kafka_name, message.SerializeToString(), partition=message.partition)
        self._producer.commit_transaction(30)


class NamedTopic(NamedTuple):
    """A topic whose messages are recompute's own, and the table behind it."""

    name: str
    table: str


class Consumer:
    def __init__(self, topic: WrittenTopic | NamedTopic, caller: Caller, group: str | None = None) -> None:
        self.topic, self.caller = topic, caller
        self.group = f"g_{secrets.token_hex(4)}" if group is None else group

    def post(self, path: str, body: object) -> Answer:
        text = body if isinstance(body, str) else json.dumps(body)
        return ask(self.caller.port, path, method="POST", headers=self.caller.headers, body=text)

    def consume(self, start: Any = "Earliest", limit: int = 100, **more: Any) -> dict[str, Any]:
        body = {"topic": self.topic.name, "start": start, "limit": limit, "timeout_seconds": 0, "group_id": self.group}
        answer = self.post("/api/topics/consume", {**body, **more})
        assert answer.status == 200, answer
        return answer.body

    def offsets(self, *args: Any, **more: Any) -> list[int]:
        return [message["offset"] for message in self.consume(*args, **more)["messages"]]

    def ack(self, upto: int, **more: Any) -> dict[str, Any]:
        body = {"topic": self.topic.name, "group_id": self.group, "partition_id": 0, "upto_offset": upto}
        answer = self.post("/api/topics/ack", {**body, **more})
        assert answer.status == 200, answer
        return answer.body


@pytest.fixture
def topic(stack) -> WrittenTopic:
    return WrittenTopic(stack)


@pytest.fixture
def consumer(stack, topic) -> Consumer:
    return Consumer(topic, stack.service())
