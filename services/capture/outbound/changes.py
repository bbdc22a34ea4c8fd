"""The log `changes`: its tail, our fence in it, and what we append."""

from collections.abc import Callable, Iterator
from typing import Final

from proto.positions import Lsn
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import ChangesRecord, Fence
from proto.topics import CHANGES
from services.capture.core.assembly import Cut, Position
from services.capture.core.continuity import Ledger, Tail
from services.capture.core.records import Header
from services.capture.core.tail import TailRecord, fold, fold_from
from services.capture.errors import Superseded
from services.chassis.kafka import Kafka, Reader, Writer

CLIENT_ID: Final = "capture"
READ_TIMEOUT_S = 1.0


class LogTail:
    """Reads the end of the log, up to a given offset."""

    def __init__(self, kafka: Kafka, *, while_waiting: Callable[[], None]) -> None:
        self._reader = Reader(kafka, CHANGES.name, client_id=CLIENT_ID)
        self._while_waiting = while_waiting

    def read(self, ledger: Ledger, fence_offset: int) -> Tail | None:
        """The last valid record; None for an empty log."""
        low, high = self._reader.low_and_high()
        if low == high:
            return None
        start = fold_from(self._entries, ledger, fence_offset, low, high)
        return fold(self._entries(start, high))[0]

    def read_up_to_fence(self, identity: Identity, ledger: Ledger, noted_offset: int, fence_offset: int) -> Tail:
        """The tail in front of our own fence, which must be in force there."""
        low, _ = self._reader.low_and_high()
        start = fold_from(self._entries, ledger, noted_offset, low, fence_offset)
        tail, in_force = fold(self._entries(start, fence_offset + 1))
        if in_force != identity:
            raise Superseded(identity.epoch, in_force.epoch)
        return tail

    def close(self) -> None:
        self._reader.close()

    def _entries(self, start: int, end: int) -> Iterator[TailRecord]:
        self._reader.seek_to(start)
        while self._reader.position < end:
            messages = self._reader.read(1000, READ_TIMEOUT_S)
            self._while_waiting()
            for message in messages:
                offset, value = message.offset(), message.value()
                assert offset is not None and value is not None
                if offset < end:
                    yield TailRecord(offset, value, ChangesRecord.FromString(value))


class ChangesLog:
    """Appends to the log as one writer; tells up to which LSN everything is safe in Kafka."""

    def __init__(self, kafka: Kafka, *, record_bytes: int, while_waiting: Callable[[], None]) -> None:
        self._writer = Writer(kafka, CHANGES.name, client_id=CLIENT_ID, partition=0, while_waiting=while_waiting)
        self._record_bytes = record_bytes
        self._while_waiting = while_waiting
        self._header: Header | None = None
        self.durable_lsn = Lsn(0)

    def fence(self, header: Header, fence: Fence, position: Position) -> int:
        """Write our fence and return its offset; nothing else of ours may be sent before it is known to be in force."""
        self._header = header
        offsets: list[int] = []
        self._writer.send(header.fence(fence, position).SerializeToString(), on_delivered=offsets.append)
        while not offsets:
            self._writer.flush(READ_TIMEOUT_S)
        return offsets[0]

    def append(self, cut: Cut) -> int:
        """Send a segment, in pieces if it is larger than a record may be, and return how many bytes that took."""
        assert self._header is not None
        value, size = b"", 0
        for record in self._header.segments(cut, record_bytes=self._record_bytes):
            if value:
                self._writer.send(value)
                # A row of many pieces takes seconds on a busy machine, and the walsender counts them.
                self._while_waiting()
            value = record.SerializeToString()
            size += len(value)
        self._writer.send(value, on_delivered=self._note(cut.after.lsn))
        return size

    def heartbeat(self, position: Position, written_us: int) -> None:
        assert self._header is not None
        record = self._header.heartbeat(position, written_us)
        self._writer.send(record.SerializeToString(), on_delivered=self._note(position.lsn))

    def poll(self) -> None:
        self._writer.poll(0)

    def flush(self, timeout_s: float) -> None:
        self._writer.flush(timeout_s)

    @property
    def outstanding(self) -> int:
        return self._writer.outstanding

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    def close(self) -> None:
        self._writer.close()

    def _note(self, lsn: Lsn) -> Callable[[int], None]:
        def delivered(offset: int) -> None:
            # One partition and an idempotent producer: what was sent before is there as well.
            self.durable_lsn = max(self.durable_lsn, lsn)

        return delivered
