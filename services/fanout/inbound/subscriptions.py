"""The topic `subscriptions`, partition by partition, kept up with its end."""

from collections.abc import Callable, Iterator

from confluent_kafka import Message
from msgspec import Struct

from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from proto.topics import SUBSCRIPTIONS
from services.chassis.kafka import Kafka
from services.chassis.kafka.partitions import PartitionsReader

CLIENT_ID = "fanout"


class Heard(Struct, frozen=True):
    """A record, or the end of a subscription."""

    partition: int
    key: bytes
    record: SubscriptionRecord | None
    written_ms: int


class Subscriptions:
    """Reads the partitions whose deltas are ours."""

    def __init__(self, kafka: Kafka, *, while_waiting: Callable[[], None]) -> None:
        self._reader = PartitionsReader(kafka, SUBSCRIPTIONS.name, client_id=CLIENT_ID)
        self._while_waiting = while_waiting

    def add(self, partitions: list[int]) -> None:
        """Begin at the beginning of these partitions."""
        self._reader.add({number: self._reader.low_and_high(number)[0] for number in partitions})

    def remove(self, partitions: list[int]) -> None:
        self._reader.remove(partitions)

    def at_hand(self) -> Iterator[Heard]:
        """The records that have arrived since the last call."""
        return map(_heard, self._reader.read(0))

    def catch_up(self, partitions: set[int]) -> Iterator[Heard]:
        """All records up to the present end of these partitions, among records of our other partitions."""
        ends = {number: self._reader.low_and_high(number)[1] for number in partitions}
        return map(_heard, self._reader.read_up_to(ends, while_waiting=self._while_waiting))

    def close(self) -> None:
        self._reader.close()


def _heard(message: Message) -> Heard:
    number, key, value = message.partition(), message.key(), message.value()
    assert number is not None and key is not None
    return Heard(number, key, None if value is None else SUBSCRIPTIONS.decode(value), message.timestamp()[1])
