"""The partition of `deliveries` that this gateway reads."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.topics import DELIVERIES
from services.chassis.kafka import Kafka, OffsetOutOfRange, Reader

CLIENT_ID = "gateway"
MESSAGES_A_READ = 500
WAIT_S = 0.5


class Batch(Struct, frozen=True):
    """What came for us; `lost` says that more would have come before it and is gone."""

    deliveries: list[Delivery]
    lost: bool = False


class Deliveries:
    """From the end on: what was meant for an earlier process is of no use to this one."""

    def __init__(self, kafka: Kafka, *, gateway_id: str, partition: int) -> None:
        self._gateway_id = gateway_id
        self._reader = Reader(kafka, DELIVERIES.name, partition, client_id=CLIENT_ID)
        self._reader.seek_to(self._reader.low_and_high()[1])
        # A thread of its own: nothing may delay the next read.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="deliveries")

    async def batches(self) -> AsyncIterator[Batch]:
        """What came for us, again and again; an empty batch is a sign of life."""
        loop = asyncio.get_running_loop()
        while True:
            yield await loop.run_in_executor(self._thread, self._read)

    @property
    def behind(self) -> int:
        """Records that were not read yet."""
        return self._reader.behind

    @property
    def trouble(self) -> str | None:
        return self._reader.trouble

    def close(self) -> None:
        self._reader.close()

    def _read(self) -> Batch:
        try:
            messages = self._reader.read(MESSAGES_A_READ, WAIT_S)
        except OffsetOutOfRange:
            # Minutes behind, and the topic keeps no more: go on with what there is.
            self._reader.seek_to(self._reader.low_and_high()[0])
            return Batch([], lost=True)
        decoded = (DELIVERIES.decode(message.value() or b"") for message in messages)
        return Batch([delivery for delivery in decoded if delivery.gateway_id == self._gateway_id])
