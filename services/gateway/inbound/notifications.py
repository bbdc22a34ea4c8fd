"""Reads `notifications`: once for all sockets and sessions of this gateway, from its end on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Message
from google.protobuf.message import DecodeError
from structlog.typing import FilteringBoundLogger

from proto.streams.fencing import Fencing, Writer
from proto.tidewire.v1.notifications_pb2 import NotificationRecord
from proto.topics import NOTIFICATIONS
from services.chassis.kafka import Kafka, KafkaRefused, KafkaUnreachable, TopicMissing
from services.chassis.kafka.partitions import PartitionsReader
from services.gateway.core.notify.continuity import Continuity, Gap

CLIENT_ID = "gateway-notifications"
WAIT_S = 0.5
RETRY_S = 0.5


class NotificationLog:
    """What fenced-off workers wrote is left out."""

    def __init__(self, kafka: Kafka, *, log: FilteringBoundLogger) -> None:
        self._kafka, self._log = kafka, log
        self._fencing = [Fencing() for _ in range(NOTIFICATIONS.partitions)]
        self._reader: PartitionsReader | None = self._open({})
        # The offset behind what was given out, of each partition.
        self._places = dict(self._reader.positions)
        self._continuity = Continuity(self._places)
        self._trouble: str | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="notifications")

    async def batches(self) -> AsyncIterator[list[NotificationRecord | Gap]]:
        """What came, again and again, and where something is missing; an empty batch is a sign of life."""
        loop = asyncio.get_running_loop()
        while True:
            yield await loop.run_in_executor(self._thread, self._read)
            if self._trouble is not None:
                await asyncio.sleep(RETRY_S)

    @property
    def trouble(self) -> str | None:
        """Why nothing can be read now."""
        return self._trouble

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._drop()

    def _read(self) -> list[NotificationRecord | Gap]:
        try:
            if self._reader is None:
                self._reader = self._open(self._places)
            messages = self._reader.read(WAIT_S)
        except (KafkaUnreachable, KafkaRefused, TopicMissing) as error:
            # What came before the error was not given out: it is read again.
            if self._trouble is None:
                self._log.warning("notifications_not_read", reason=str(error))
            self._trouble = str(error)
            self._drop()
            return []
        self._trouble, self._places = None, dict(self._reader.positions)
        return [found for message in messages for found in self._found(message)]

    def _open(self, places: dict[int, int]) -> PartitionsReader:
        """From these places on as far as they are there, else from the end."""
        reader = PartitionsReader(self._kafka, NOTIFICATIONS.name, client_id=CLIENT_ID)
        try:
            begin = {}
            for number in range(NOTIFICATIONS.partitions):
                low, high = reader.low_and_high(number)
                begin[number] = max(low, places.get(number, high))
                if begin[number] > high:  # the topic was made anew, and its writers with it
                    begin[number], self._fencing[number] = low, Fencing()
            reader.add(begin)
        except BaseException:
            reader.close()
            raise
        return reader

    def _found(self, message: Message) -> Iterator[NotificationRecord | Gap]:
        """The record, unless it is none that counts; before it, that some are missing."""
        number, offset = message.partition(), message.offset()
        assert number is not None and offset is not None
        if not self._continuity.follows(number, offset):
            yield Gap(number)
        try:
            record = NOTIFICATIONS.decode(message.value() or b"")
        except DecodeError as error:
            self._log.warning("notification_unreadable", partition=number, offset=offset, reason=str(error))
            return
        fencing, writer = self._fencing[number], Writer(record.epoch, record.writer)
        if record.WhichOneof("body") == "fence":
            fencing.fence(writer)
        elif fencing.admits(writer):
            yield record

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None
