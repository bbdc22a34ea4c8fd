"""Reads `topic_states`: which topics there are with which limits, and how far the routes have read `changes`."""

import msgspec
from msgspec import Struct

from proto.topics import TOPIC_STATES
from services.chassis.kafka import Kafka
from services.chassis.kafka import Reader as KafkaReader
from services.chassis.kafka.committed import read_to_end
from services.retention.core.limits import Limits
from services.retention.core.readers import Reader

CLIENT_ID = "retention"


class Topic(Struct, frozen=True):
    """A durable topic, as its definition says."""

    topic_id: str
    partitions: int = 1
    retention_seconds: int | None = None
    retention_max_bytes: int | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.retention_seconds, self.retention_max_bytes)


class States(Struct, frozen=True):
    topics: dict[str, Topic]
    readers: list[Reader]
    # Whether every partition has been read by somebody: without that nobody knows which topics there are.
    is_whole: bool


def read_states(kafka: Kafka) -> States:
    topics: dict[str, Topic] = {}
    readers: dict[int, Reader] = {}
    for number in range(TOPIC_STATES.partitions):
        reader = KafkaReader(kafka, TOPIC_STATES.name, number, client_id=CLIENT_ID)
        low, _ = reader.low_and_high()
        reader.close()
        for message in read_to_end(kafka, TOPIC_STATES.name, number, low, client_id=CLIENT_ID):
            key, value = (message.key() or b"").decode(), message.value()
            record = None if value is None else TOPIC_STATES.decode(value)
            if record is None:
                topics.pop(key, None)
            elif record.HasField("position"):
                position = record.position
                readers[number] = Reader(f"routes {number}", position.first_seq, position.written_us)
            else:
                topics[key] = msgspec.json.decode(record.topic.definition, type=Topic, strict=False)
    return States(topics, list(readers.values()), len(readers) == TOPIC_STATES.partitions)
