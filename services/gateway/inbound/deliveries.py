"""The partition of `deliveries` that this gateway reads."""

import asyncio
from collections.abc import AsyncIterator

from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.topics import DELIVERIES
from services.chassis.kafka import Kafka, Reader

CLIENT_ID = "gateway"
MESSAGES_A_READ = 500
WAIT_S = 0.5


class Deliveries:
    """From the end on: what was meant for an earlier process is of no use to this one."""

    def __init__(self, kafka: Kafka, *, gateway_id: str, partition: int) -> None:
        self._gateway_id = gateway_id
        self._reader = Reader(kafka, DELIVERIES.name, partition, client_id=CLIENT_ID)
        self._reader.seek_to(self._reader.low_and_high()[1])

    async def batches(self) -> AsyncIterator[list[Delivery]]:
        """What came for us, again and again; an empty batch is a sign of life."""
        while True:
            messages = await asyncio.to_thread(self._reader.read, MESSAGES_A_READ, WAIT_S)
            decoded = (DELIVERIES.decode(message.value() or b"") for message in messages)
            yield [delivery for delivery in decoded if delivery.gateway_id == self._gateway_id]

    @property
    def trouble(self) -> str | None:
        return self._reader.trouble

    def close(self) -> None:
        self._reader.close()
