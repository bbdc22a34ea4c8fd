"""Writes `notifications`: fences the partitions that we own, reads what stands before the fence, and appends."""

import secrets
from collections.abc import Callable, Iterable, Iterator

from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.notifications_pb2 import Notification, NotificationFence, NotificationRecord, ResultPart
from proto.topics import NOTIFICATIONS
from services.chassis.kafka import Kafka, Writer
from services.chassis.kafka.partitions import PartitionsReader
from services.recompute.core.notify.registration import partition_of_name
from services.recompute.core.notify.tails import PartitionTail

CLIENT_ID = "recompute-notifications"
FENCE_WAIT_S = 1.0
# Records without a query: compaction needs a key for each.
FENCE_KEY, RESULT_KEY = b"\0fence", b"\0result "
PART_BYTES = 800_000


class Notifications:
    """Writes as the one owner of the partitions that were taken over."""

    def __init__(self, kafka: Kafka, *, worker_id: str, while_waiting: Callable[[], None]) -> None:
        self._kafka, self._worker_id, self._while_waiting = kafka, worker_id, while_waiting
        self._writer = Writer(kafka, NOTIFICATIONS.name, client_id=CLIENT_ID, while_waiting=while_waiting)
        self._number = secrets.randbits(64)
        self._epochs: dict[int, int] = {}

    def take_over(self, partitions: Iterable[int]) -> dict[int, PartitionTail]:
        """Fence these partitions, and return what stands before our fence in each."""
        reader = PartitionsReader(self._kafka, NOTIFICATIONS.name, client_id=CLIENT_ID)
        tails = {number: PartitionTail() for number in partitions}
        try:
            bounds = {number: reader.low_and_high(number) for number in tails}
            reader.add({number: low for number, (low, _) in bounds.items()})
            self._fold(reader, {number: high for number, (_, high) in bounds.items()}, tails)
            while unfenced := [number for number in tails if not self._is_fenced(number, tails[number])]:
                for number in unfenced:
                    self._epochs[number] = tails[number].epoch + 1
                self._fold(reader, self._fence(unfenced), tails)
        finally:
            reader.close()
        return tails

    def tell(self, told: Notification) -> None:
        self._send(NotificationRecord(notification=told), told.query_id, told.query_id.encode())

    def answer(self, result: ResultPart, rows: Iterable[bytes]) -> None:
        """A whole result, in parts that Kafka takes."""
        for part, (piece, last) in enumerate(_pieces(rows)):
            one = ResultPart()
            one.CopyFrom(result)
            one.rows, one.part, one.last = piece, part, last
            self._send(NotificationRecord(result=one), one.query_id, RESULT_KEY + one.query_id.encode())

    def poll(self) -> None:
        self._writer.poll(0)

    def flush(self, timeout_s: float) -> None:
        self._writer.flush(timeout_s)

    def _send(self, record: NotificationRecord, query_id: str, key: bytes) -> None:
        partition = partition_of_name(query_id)
        record.epoch, record.writer = self._epochs[partition], self._number
        self._writer.send(record.SerializeToString(), key=key, partition=partition)

    def _is_fenced(self, partition: int, tail: PartitionTail) -> bool:
        return tail.fencing.in_force == Identity(self._epochs.get(partition, 0), self._number)

    def _fold(self, reader: PartitionsReader, ends: dict[int, int], tails: dict[int, PartitionTail]) -> None:
        for message in reader.read_up_to(ends, while_waiting=self._while_waiting):
            number, value = message.partition(), message.value()
            assert number is not None and value is not None
            tails[number].feed(NOTIFICATIONS.decode(value))

    def _fence(self, partitions: list[int]) -> dict[int, int]:
        offsets: dict[int, int] = {}
        for number in partitions:
            record = NotificationRecord(
                epoch=self._epochs[number], writer=self._number, fence=NotificationFence(worker_id=self._worker_id)
            )

            def delivered(offset: int, number: int = number) -> None:
                offsets[number] = offset + 1

            self._writer.send(record.SerializeToString(), key=FENCE_KEY, partition=number, on_delivered=delivered)
        while len(offsets) < len(partitions):
            self._writer.flush(FENCE_WAIT_S)
        return offsets


def _pieces(rows: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Rows joined by commas, cut between rows; whether it is the last piece."""
    held: list[bytes] = []
    size = 0
    for row in rows:
        if held and size + len(row) > PART_BYTES:
            yield b",".join(held), False
            held, size = [], 0
        held.append(row)
        size += len(row) + 1
    yield b",".join(held), True
