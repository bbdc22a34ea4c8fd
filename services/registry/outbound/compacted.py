"""A compacted topic of ours: what it holds, and records for it that never arrive late."""

from typing import TypeVar

from google.protobuf.message import Message

from proto.topics import Topic
from services.chassis.kafka import Kafka, Writer
from services.chassis.kafka.partitions import PartitionsReader

Record = TypeVar("Record", bound=Message)

CLIENT_ID = "registry"
SETTLE_S = 1.0


class Compacted:
    """Writes within `timeout_s` or not at all: a process that was frozen must not write for one that took its place.

    librdkafka gives up what has waited longer before it sends anything; Faust's own producer would send it.
    """

    def __init__(self, kafka: Kafka, topic_name: str, *, timeout_s: float) -> None:
        extra = {"message.timeout.ms": int(timeout_s * 1000)}
        self._writer = Writer(kafka, topic_name, client_id=CLIENT_ID, extra=extra)

    def send(self, key: bytes, record: Message | None, partition: int) -> None:
        """None ends what is under the key."""
        value = None if record is None else record.SerializeToString()
        self._writer.send(value, key=key, partition=partition)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Wait until all is written; raises DeliveryFailed if the time is over."""
        while self._writer.flush(SETTLE_S):
            pass

    def close(self) -> None:
        self._writer.close()


def latest(kafka: Kafka, topic: Topic[Record]) -> dict[bytes, Record]:
    """The last record under each key that has not been ended."""
    reader = PartitionsReader(kafka, topic.name, client_id=CLIENT_ID)
    try:
        bounds = {number: reader.low_and_high(number) for number in range(topic.partitions)}
        reader.add({number: low for number, (low, _) in bounds.items()})
        held: dict[bytes, Record] = {}
        for message in reader.read_up_to({number: high for number, (_, high) in bounds.items()}):
            key, value = message.key(), message.value()
            assert key is not None
            if value is None:
                held.pop(key, None)
            else:
                held[key] = topic.decode(value)
        return held
    finally:
        reader.close()
