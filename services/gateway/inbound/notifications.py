"""Reads `notifications`: once for all sockets and sessions of this gateway, from its end on."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from proto.streams.fencing import Fencing, Writer
from proto.tidewire.v1.notifications_pb2 import NotificationRecord
from proto.topics import NOTIFICATIONS
from services.chassis.kafka import Kafka
from services.chassis.kafka.partitions import PartitionsReader
from services.gateway.core.notify.continuity import Continuity, Gap

CLIENT_ID = "gateway-notifications"
WAIT_S = 0.5


class NotificationLog:
    """What fenced-off workers wrote is left out."""

    def __init__(self, kafka: Kafka) -> None:
        self._reader = PartitionsReader(kafka, NOTIFICATIONS.name, client_id=CLIENT_ID)
        ends = {number: self._reader.low_and_high(number)[1] for number in range(NOTIFICATIONS.partitions)}
        self._reader.add(ends)
        self._continuity = Continuity(ends)
        self._fencing = [Fencing() for _ in range(NOTIFICATIONS.partitions)]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notifications")

    async def batches(self) -> AsyncIterator[list[NotificationRecord | Gap]]:
        """What came, again and again, and where something is missing; an empty batch is a sign of life."""
        loop = asyncio.get_running_loop()
        while True:
            yield await loop.run_in_executor(self._thread, self._read)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._reader.close()

    def _read(self) -> list[NotificationRecord | Gap]:
        counting: list[NotificationRecord | Gap] = []
        for message in self._reader.read(WAIT_S):
            record, number, offset = NOTIFICATIONS.decode(message.value() or b""), message.partition(), message.offset()
            assert number is not None and offset is not None
            if not self._continuity.follows(number, offset):
                counting.append(Gap(number))
            fencing, writer = self._fencing[number], Writer(record.epoch, record.writer)
            if record.WhichOneof("body") == "fence":
                fencing.fence(writer)
            elif fencing.admits(writer):
                counting.append(record)
        return counting
