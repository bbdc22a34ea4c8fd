"""A compacted topic: reads its latest records, and writes records in time or not at all."""

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from proto.topics import Topic
from services.chassis.kafka import Kafka, Writer
from services.chassis.kafka.partitions import PartitionsReader

Record = TypeVar("Record", bound=Message)

CLIENT_ID = "registry"
SETTLE_S = 1.0


class Compacted:
    """Writes within `timeout_s` or not at all: a process that was frozen must not write after another took over.

    librdkafka gives up what has waited longer before it sends anything; Faust's own producer would send it.
    """

    def __init__(self, kafka: Kafka, topic_name: str, *, timeout_s: float) -> None:
        extra = {"message.timeout.ms": int(timeout_s * 1000)}
        self._writer = Writer(kafka, topic_name, client_id=CLIENT_ID, extra=extra)

    def send(self, key: bytes, value: bytes | None, partition: int) -> None:
        """Write a record under the key; None deletes it."""
        self._writer.send(value, key=key, partition=partition)

    def settle(self) -> None:
        """Wait until all is written; raises DeliveryFailed if the time is over."""
        while self._writer.flush(SETTLE_S):
            pass

    def close(self) -> None:
        self._writer.close()


def latest(
    kafka: Kafka, topic: Topic[Record], is_ours: Callable[[bytes], bool] = lambda _: True
) -> dict[bytes, Record]:
    """The last record under each key that has not been ended; one that is not ours ends it too."""
    reader = PartitionsReader(kafka, topic.name, client_id=CLIENT_ID)
    try:
        bounds = {number: reader.low_and_high(number) for number in range(topic.partitions)}
        reader.add({number: low for number, (low, _) in bounds.items()})
        held: dict[bytes, Record] = {}
        for message in reader.read_up_to({number: high for number, (_, high) in bounds.items()}):
            key, value = message.key(), message.value()
            assert key is not None
            if value is None or not is_ours(value):
                held.pop(key, None)
            else:
                held[key] = topic.decode(value)
        return held
    finally:
        reader.close()
