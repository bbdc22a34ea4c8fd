"""The topic `queries`."""

from collections.abc import Awaitable
from typing import Any

from proto.partitions import partition_of
from proto.tidewire.v1.queries_pb2 import Query
from proto.topics import QUERIES
from services.chassis.kafka import Kafka
from services.registry.core.writes import PutQuery
from services.registry.outbound.compacted import latest


class Queries:
    """Writes through Faust's producer; the awaitable is done when Kafka has the record."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def put(self, write: PutQuery) -> Awaitable[Any]:
        value = None if write.query is None else write.query.SerializeToString()
        partition = partition_of(write.query_id)
        sent: Awaitable[Any] = await self._channel.send(key=write.query_id, value=value, partition=partition)
        return sent

    @staticmethod
    def held(kafka: Kafka) -> dict[bytes, Query]:
        return latest(kafka, QUERIES)
