"""Writes `deltas`: fences the partitions that we own, reads what is before the fence, and appends."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from proto.partitions import partition_of
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.deltas_pb2 import Delta, DeltaFence, DeltaRecord, Snapshot
from proto.tidewire.v1.queries_pb2 import SnapshotWanted
from proto.topics import DELTAS
from services.chassis.kafka import Kafka, Writer
from services.chassis.kafka.partitions import PartitionsReader
from services.recompute.core.emitted import Emitted
from services.recompute.core.result import State
from services.recompute.errors import RowTooLarge
from services.recompute.outbound.emitted_checkpoints import EmittedCheckpoints, digest

CLIENT_ID = "recompute"
FENCE_WAIT_S = 1.0
FLUSH_S = 10.0
# A checkpoint is due after this many records, which a takeover would have to read.
RECORDS_A_CHECKPOINT = 5_000
BYTES_A_CHECKPOINT = 16 * 1024 * 1024
# The default record limit of brokers, less the envelope of `deliveries`; and the limit of our producer.
RECORD_BYTES = 1_000_000
LARGEST_UNPACKED_BYTES = 10_000_000


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

    def take_over(self, partitions: Iterable[int], history: int) -> dict[int, Emitted]:
        """Fence these partitions, and return the state before our fence in each."""
        reader = PartitionsReader(self._kafka, DELTAS.name, client_id=CLIENT_ID)
        try:
            bounds = {number: reader.low_and_high(number) for number in partitions}
            begun = self._restored(reader, bounds)
            emitted = {number: states for number, (states, _) in begun.items()}
            reader.add({number: begin for number, (_, begin) in begun.items()})
            self._fold(reader, {number: high for number, (_, high) in bounds.items()}, emitted)
            while unfenced := [number for number in emitted if not self._is_fenced(number, emitted[number])]:
                for number in unfenced:
                    self._epochs[number] = emitted[number].epoch + 1
                self._fold(reader, self._fence(unfenced, history), emitted)
        finally:
            reader.close()
        for number, (_, begin) in begun.items():
            self._written[number] = Written()
            self._written[number].records = bounds[number][1] - begin
        return emitted

    def append(self, deltas: Iterable[Delta]) -> int:
        """Write deltas for all readers of a query; returns the number of records."""
        return sum(self._send(DeltaRecord(delta=delta), delta.query_id) for delta in deltas)

    def answer(self, wanted: SnapshotWanted, results: Iterable[Delta]) -> int:
        """Write the whole result for the gateway that asked for it; returns the number of records."""
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
        """The partitions in which many records were written since the last checkpoint."""
        return [
            number
            for number, written in self._written.items()
            if written.records >= RECORDS_A_CHECKPOINT or written.bytes >= BYTES_A_CHECKPOINT
        ]

    def checkpoint(self, partition: int, states: dict[bytes, State], answered: Iterable[bytes]) -> None:
        """Write a checkpoint of what readers know; `states` must include everything sent to the partition."""
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

    def _is_fenced(self, partition: int, emitted: Emitted) -> bool:
        return emitted.fencing.in_force == Identity(self._epochs.get(partition, 0), self._number)

    def _restored(
        self, reader: PartitionsReader, bounds: Mapping[int, tuple[int, int]]
    ) -> dict[int, tuple[Emitted, int]]:
        """The state of each last checkpoint and the offset behind it, or nothing and the topic's beginning."""
        saved = {number: self._checkpoints.read(number) for number in bounds}
        fitting = {
            number: checkpoint
            for number, (low, high) in bounds.items()
            if (checkpoint := saved[number]) is not None and low <= checkpoint.offset < high
        }
        digests = self._digests(reader, {number: checkpoint.offset for number, checkpoint in fitting.items()})
        restored = {number: one for number, one in fitting.items() if digests.get(number) == one.digest}
        return {
            number: (Emitted(one.restored(), one.answered), one.offset)
            if (one := restored.get(number)) is not None
            else (Emitted(), low)
            for number, (low, _) in bounds.items()
        }

    def _digests(self, reader: PartitionsReader, offsets: Mapping[int, int]) -> dict[int, bytes]:
        """Digests of the records at these offsets, to see whether a checkpoint was made of this topic."""
        reader.add(offsets)
        try:
            ends = {number: offset + 1 for number, offset in offsets.items()}
            return {
                number: digest(message.value() or b"")
                for message in reader.read_up_to(ends, while_waiting=self._while_waiting)
                if (number := message.partition()) is not None and message.offset() == offsets[number]
            }
        finally:
            reader.remove(list(offsets))

    def _fold(self, reader: PartitionsReader, ends: Mapping[int, int], emitted: Mapping[int, Emitted]) -> None:
        for message in reader.read_up_to(ends, while_waiting=self._while_waiting):
            number, value = message.partition(), message.value()
            assert number is not None and value is not None
            emitted[number].feed(DELTAS.decode(value))

    def _fence(self, partitions: Sequence[int], history: int) -> dict[int, int]:
        """A fence of ours in each; gives the offsets behind them."""
        offsets: dict[int, int] = {}
        for number in partitions:
            fence = DeltaRecord(
                epoch=self._epochs[number],
                writer=self._number,
                fence=DeltaFence(worker_id=self._worker_id, history=history),
            )

            def delivered(offset: int, number: int = number) -> None:
                offsets[number] = offset + 1

            self._writer.send(fence.SerializeToString(), partition=number, on_delivered=delivered)
        while len(offsets) < len(partitions):
            self._writer.flush(FENCE_WAIT_S)
        return offsets

    def _send(self, record: DeltaRecord, query_id: bytes) -> int:
        partition = partition_of(query_id)
        record.epoch, record.writer = self._epochs[partition], self._number
        value, written = record.SerializeToString(), self._written[partition]
        _check_size(value)
        written.records, written.bytes, written.last = written.records + 1, written.bytes + len(value), value

        def delivered(offset: int) -> None:
            written.offset = offset

        self._writer.send(value, key=query_id, partition=partition, on_delivered=delivered)
        return 1


def _check_size(value: bytes) -> None:
    """Raise RowTooLarge for a record that the broker would refuse: its refusal would end the process."""
    if len(value) <= RECORD_BYTES:
        return
    packed = len(pa.compress(value, codec="lz4", asbytes=True)) if len(value) <= LARGEST_UNPACKED_BYTES else len(value)
    if packed > RECORD_BYTES:
        raise RowTooLarge(len(value), RECORD_BYTES)
