"""The topic `deltas`: our fence in each partition that we own, what stands before it, and what we append."""

import secrets
from collections.abc import Callable, Iterable, Iterator

from proto.partitions import partition_of
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.deltas_pb2 import Delta, DeltaFence, DeltaRecord, Snapshot
from proto.tidewire.v1.queries_pb2 import SnapshotWanted
from proto.topics import DELTAS
from services.chassis.kafka import Kafka, Writer
from services.chassis.kafka.partitions import PartitionsReader
from services.recompute.core.emitted import Emitted
from services.recompute.core.result import State
from services.recompute.outbound.emitted_checkpoints import Checkpoint, EmittedCheckpoints, digest

CLIENT_ID = "recompute"
FENCE_WAIT_S = 1.0
FLUSH_S = 10.0
# A takeover reads so many records of a partition without a checkpoint, at most.
RECORDS_A_CHECKPOINT = 5_000
BYTES_A_CHECKPOINT = 16 * 1024 * 1024


class Written:
    """What was sent to a partition since its last checkpoint."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.offset = -1
        self.last = b""


class Deltas:
    """Writes as the one owner of the partitions that were taken over."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        worker_id: str,
        checkpoints: EmittedCheckpoints,
        while_waiting: Callable[[], None],
    ) -> None:
        self._kafka, self._worker_id, self._while_waiting = kafka, worker_id, while_waiting
        self._checkpoints = checkpoints
        self._writer = Writer(kafka, DELTAS.name, client_id=CLIENT_ID, while_waiting=while_waiting)
        self._number = secrets.randbits(64)
        self._epochs: dict[int, int] = {}
        self._written: dict[int, Written] = {}

    def take_over(self, partitions: Iterable[int], history: int) -> Iterator[tuple[int, Emitted]]:
        """Fence each partition, and give what stands before our fence in it."""
        reader = PartitionsReader(self._kafka, DELTAS.name, client_id=CLIENT_ID)
        try:
            for partition in partitions:
                yield partition, self._take_over(reader, partition, history)
        finally:
            reader.close()

    def append(self, deltas: Iterable[Delta]) -> int:
        """Tell all readers of a query; returns how many records it took."""
        return sum(self._send(DeltaRecord(delta=delta), delta.query_id) for delta in deltas)

    def answer(self, wanted: SnapshotWanted, results: Iterable[Delta]) -> int:
        """Tell one gateway the whole result that it asked for."""
        return sum(
            self._send(
                DeltaRecord(
                    snapshot=Snapshot(
                        request_id=wanted.request_id,
                        gateway_id=wanted.gateway_id,
                        delivery_partition=wanted.delivery_partition,
                        result=result,
                    )
                ),
                result.query_id,
            )
            for result in results
        )

    def poll(self) -> None:
        self._writer.poll(0)

    def partition(self, query_id: bytes) -> int:
        return partition_of(query_id)

    def due_for_checkpoint(self) -> list[int]:
        """The partitions in which so much was written that a takeover would read for long."""
        return [
            number
            for number, written in self._written.items()
            if written.records >= RECORDS_A_CHECKPOINT or written.bytes >= BYTES_A_CHECKPOINT
        ]

    def checkpoint(self, partition: int, states: dict[bytes, State], answered: Iterable[bytes]) -> None:
        """Keep what readers of a partition know; `states` must contain all that was sent to it."""
        if self._writer.flush(FLUSH_S):
            return  # Kafka does not take records now; the next turn tries again
        written = self._written[partition]
        self._checkpoints.write(partition, offset=written.offset, value=written.last, states=states, answered=answered)
        written.records = written.bytes = 0

    def flush(self, timeout_s: float) -> None:
        self._writer.flush(timeout_s)

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    def _take_over(self, reader: PartitionsReader, partition: int, history: int) -> Emitted:
        low, high = reader.low_and_high(partition)
        emitted, begin = self._restored(reader, partition, low, high)
        reader.add({partition: begin})
        self._fold(reader, partition, high, emitted)
        while emitted.fencing.in_force != Identity(self._epochs.get(partition, 0), self._number):
            self._epochs[partition] = emitted.epoch + 1
            self._fold(reader, partition, self._fence(partition, history) + 1, emitted)
        reader.remove([partition])
        self._written[partition] = Written()
        self._written[partition].records = high - begin
        return emitted

    def _restored(self, reader: PartitionsReader, partition: int, low: int, high: int) -> tuple[Emitted, int]:
        """The state of the last checkpoint and the offset behind it, or nothing and the topic's beginning."""
        saved = self._checkpoints.read(partition)
        if saved is not None and low <= saved.offset < high and self._is_of(saved, reader, partition):
            return Emitted(saved.restored(), saved.answered), saved.offset
        return Emitted(), low

    def _is_of(self, saved: Checkpoint, reader: PartitionsReader, partition: int) -> bool:
        reader.add({partition: saved.offset})
        try:
            ends = {partition: saved.offset + 1}
            for message in reader.read_up_to(ends, while_waiting=self._while_waiting):
                if message.offset() == saved.offset:
                    return digest(message.value() or b"") == saved.digest
            return False
        finally:
            reader.remove([partition])

    def _fold(self, reader: PartitionsReader, partition: int, end: int, emitted: Emitted) -> None:
        for message in reader.read_up_to({partition: end}, while_waiting=self._while_waiting):
            value = message.value()
            assert value is not None
            emitted.feed(DELTAS.decode(value))

    def _fence(self, partition: int, history: int) -> int:
        fence = DeltaRecord(
            epoch=self._epochs[partition],
            writer=self._number,
            fence=DeltaFence(worker_id=self._worker_id, history=history),
        )
        offsets: list[int] = []
        self._writer.send(fence.SerializeToString(), partition=partition, on_delivered=offsets.append)
        while not offsets:
            self._writer.flush(FENCE_WAIT_S)
        return offsets[0]

    def _send(self, record: DeltaRecord, query_id: bytes) -> int:
        partition = partition_of(query_id)
        record.epoch, record.writer = self._epochs[partition], self._number
        value, written = record.SerializeToString(), self._written[partition]
        written.records, written.bytes, written.last = written.records + 1, written.bytes + len(value), value

        def delivered(offset: int) -> None:
            written.offset = offset

        self._writer.send(value, key=query_id, partition=partition, on_delivered=delivered)
        return 1
