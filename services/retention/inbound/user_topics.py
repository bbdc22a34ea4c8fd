"""Reads a durable topic's partition: what is in it, and how large it is."""

from collections.abc import Iterator

from confluent_kafka import Message

from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation
from services.chassis.kafka import Kafka, Reader
from services.chassis.kafka.committed import read_to_end
from services.retention.core.limits import Kept
from services.retention.core.sizes import Sizes

CLIENT_ID = "retention"


def topic_name(topic_id: str) -> str:
    return f"topic.{topic_id}"


class PartitionRecords:
    """One partition; sizes are counted once and kept."""

    def __init__(self, kafka: Kafka, topic_id: str, partition: int) -> None:
        self._kafka, self._name, self._partition = kafka, topic_name(topic_id), partition
        self._sizes: Sizes | None = None

    def low(self) -> int:
        reader = Reader(self._kafka, self._name, self._partition, client_id=CLIENT_ID)
        try:
            return reader.low_and_high()[0]
        finally:
            reader.close()

    def kept(self, low: int) -> Iterator[Kept]:
        for message in self._messages(low):
            yield _kept(message)

    def total_bytes(self, low: int) -> int:
        """Reads what has come since the last call, and takes off what is gone."""
        sizes = self._sizes = self._sizes or Sizes()
        if not sizes.trimmed(low):
            stretch = [_kept(one) for one in self._until(low, sizes.first_end)]
            sizes.recount(low, sum(one.size_bytes for one in stretch), len(stretch))
        for message in self._messages(max(low, sizes.next_kafka_offset)):
            one = _kept(message)
            sizes.add(one.kafka_offset, one.size_bytes)
        return sizes.total_bytes

    def _until(self, start: int, end: int) -> Iterator[Message]:
        for message in self._messages(start):
            if (message.offset() or 0) >= end:
                return
            yield message

    def _messages(self, start: int) -> Iterator[Message]:
        return read_to_end(self._kafka, self._name, self._partition, start, client_id=CLIENT_ID)


def _kept(message: Message) -> Kept:
    value, key = message.value() or b"", message.key() or b""
    record = TopicMessage.FromString(value)
    is_mark = record.operation == TopicOperation.TOPIC_OPERATION_UNSPECIFIED
    size = 0 if is_mark else len(value) + len(key)
    return Kept(record.offset, message.offset() or 0, record.committed_us, size, is_mark)
