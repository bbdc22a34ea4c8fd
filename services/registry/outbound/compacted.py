"""What a compacted topic of ours holds."""

from typing import TypeVar

from google.protobuf.message import Message

from proto.topics import Topic
from services.chassis.kafka import Kafka
from services.chassis.kafka.partitions import PartitionsReader

Record = TypeVar("Record", bound=Message)

CLIENT_ID = "registry"


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
