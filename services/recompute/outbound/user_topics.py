"""The Kafka topics of durable topics: made and dropped, and the records in them."""

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from proto.positions import Lsn, format_lsn
from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation
from services.chassis.kafka import Kafka, ensure_topics
from services.chassis.kafka.errors import making_client, unanswered

TIMEOUT_S = 10.0
OPERATIONS = {
    TopicOperation.TOPIC_OPERATION_UNSPECIFIED: b"cleared",
    TopicOperation.TOPIC_OPERATION_INSERT: b"insert",
    TopicOperation.TOPIC_OPERATION_UPDATE: b"update",
    TopicOperation.TOPIC_OPERATION_DELETE: b"delete",
}


class UserTopic(Struct, frozen=True):
    """A Kafka topic for a user topic: retention trims it, by each topic's own limits."""

    name: str
    partitions: int
    config: dict[str, str]


KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


class Record(Struct, frozen=True):
    topic_name: str
    partition: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


def topic_name(topic_id: str) -> str:
    return f"topic.{topic_id}"


def record_of(message: TopicMessage) -> Record:
    """With headers for readers that do not know our records."""
    headers = [
        ("tidewire-offset", b"%d" % message.offset),
        ("tidewire-source", f"{message.source_schema}.{message.source_table}".encode()),
        ("tidewire-op", OPERATIONS[message.operation]),
        ("tidewire-lsn", format_lsn(Lsn(message.lsn)).encode()),
        ("tidewire-actor", message.user.encode()),
    ]
    key = message.key.encode() if message.operation else None
    return Record(topic_name(message.topic_id), message.partition, key, message.SerializeToString(), headers)


class UserTopics:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._made: set[str] = set()

    def ensure(self, topics: Iterable[tuple[str, int]]) -> None:
        """Make those that are missing, by id and number of partitions."""
        missing = [UserTopic(topic_name(one), number, KEPT) for one, number in topics if one not in self._made]
        if missing:
            ensure_topics(self._kafka, missing, timeout_s=TIMEOUT_S)
            self._made.update(topic.name.removeprefix("topic.") for topic in missing)

    def drop(self, topic_id: str) -> None:
        """Delete it with its messages; one that is gone already is as good."""
        self._made.discard(topic_id)
        name = self._kafka.broker_name(topic_name(topic_id))
        with making_client(self._kafka.bootstrap):
            admin = AdminClient({**self._kafka.client_config()})
        for answer in admin.delete_topics([name], request_timeout=TIMEOUT_S).values():
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise unanswered(self._kafka.bootstrap, None, error.args[0]) from error
