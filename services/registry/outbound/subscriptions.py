"""The topic `subscriptions`."""

from collections.abc import Awaitable
from typing import Any

from proto.partitions import partition_of
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from proto.topics import SUBSCRIPTIONS
from services.chassis.kafka import Kafka
from services.registry.core.writes import PutSubscription
from services.registry.outbound.compacted import latest


class Subscriptions:
    """Writes through Faust's producer; the awaitable is done when Kafka has the record."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def put(self, write: PutSubscription) -> Awaitable[Any]:
        value = None if write.record is None else write.record.SerializeToString()
        sent: Awaitable[Any] = await self._channel.send(
            key=write.key, value=value, partition=partition_of(write.query_id)
        )
        return sent

    @staticmethod
    def held(kafka: Kafka) -> dict[bytes, SubscriptionRecord]:
        return latest(kafka, SUBSCRIPTIONS)
