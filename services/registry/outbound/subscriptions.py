"""The topic `subscriptions`."""

from collections.abc import Iterable

from proto.partitions import partition_of
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from proto.topics import SUBSCRIPTIONS
from services.chassis.kafka import Kafka
from services.registry.core.writes import PutSubscription
from services.registry.outbound.compacted import Compacted, latest


class Subscriptions:
    def __init__(self, kafka: Kafka, *, timeout_s: float) -> None:
        self._kafka, self._topic = kafka, Compacted(kafka, SUBSCRIPTIONS.name, timeout_s=timeout_s)

    def put(self, writes: Iterable[PutSubscription]) -> None:
        """Blocks until Kafka has them all."""
        for write in writes:
            value = None if write.record is None else write.record.SerializeToString()
            self._topic.send(write.key, value, partition_of(write.query_id))
        self._topic.settle()

    def held(self) -> dict[bytes, SubscriptionRecord]:
        return latest(self._kafka, SUBSCRIPTIONS)

    def close(self) -> None:
        self._topic.close()
