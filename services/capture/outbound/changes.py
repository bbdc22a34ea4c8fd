"""The log `changes`: its tail, our fence in it, and what we append."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from msgspec import Struct

from proto.positions import Lsn, Seq
from proto.streams.changes import ChangesReader
from proto.streams.fencing import Fencing
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import ChangesRecord, Fence, Fragment, Heartbeat
from proto.topics import CHANGES
from services.capture.core.assembly import Cut, Position
from services.capture.core.continuity import Ledger, Tail
from services.capture.errors import Superseded
from services.chassis.kafka import Kafka, Reader, Writer

CLIENT_ID: Final = "capture"
READ_TIMEOUT_S = 1.0


class Header(Struct, frozen=True, kw_only=True):
    """What every record of this writer says of itself."""

    identity: Identity
    history: int
    system_identifier: int
    timeline: int

    def record(self, position: Position) -> ChangesRecord:
        return ChangesRecord(
            epoch=self.identity.epoch,
            writer=self.identity.writer,
            history=self.history,
            system_identifier=self.system_identifier,
            timeline=self.timeline,
            committed_lsn=position.lsn,
            committed_seq=position.seq,
        )


class Entry(Struct, frozen=True):
    offset: int
    value: bytes
    record: ChangesRecord


class LogTail:
    """Reads the end of the log, up to a given offset."""

    def __init__(self, kafka: Kafka, *, while_waiting: Callable[[], None]) -> None:
        self._reader = Reader(kafka, CHANGES.name, client_id=CLIENT_ID)
        self._while_waiting = while_waiting

    def read(self, ledger: Ledger, fence_offset: int) -> Tail | None:
        """What the last record in force says; None for an empty log."""
        low, high = self._reader.low_and_high()
        if low == high:
            return None
        return self._fold(self._start(ledger, fence_offset, low, high), high)[0]

    def read_up_to_fence(self, identity: Identity, ledger: Ledger, noted_offset: int, fence_offset: int) -> Tail:
        """The tail in front of our own fence, which must be in force there."""
        low, _ = self._reader.low_and_high()
        start = self._start(ledger, noted_offset, low, fence_offset + 1)
        tail, in_force = self._fold(start, fence_offset + 1)
        if in_force != identity:
            raise Superseded(identity.epoch, in_force.epoch)
        return tail

    def close(self) -> None:
        self._reader.close()

    def _start(self, ledger: Ledger, fence_offset: int, low: int, high: int) -> int:
        """Where to begin so that the last record in force is certainly found."""
        if ledger.epoch > ledger.fenced:
            # A takeover was begun and not noted as done: its fence may stand anywhere behind the last one noted.
            return max(low, fence_offset) if fence_offset < high else low
        for span in (8 << 2 * step for step in count()):
            start = max(low, high - span)
            for entry in self._entries(start, high):
                # No higher fence exists, so a record of this epoch is in force. A log that is ahead of the database
                # begins a new history anyway.
                if entry.record.epoch >= ledger.fenced and entry.record.fragment.index == 0:
                    return entry.offset
            if start == low:
                return low
        raise AssertionError("unreachable")

    def _fold(self, start: int, end: int) -> tuple[Tail, Identity]:
        fencing, last, body = Fencing(), ChangesRecord(), list[bytes]()
        for entry in self._entries(start, end):
            record, identity = entry.record, Identity(entry.record.epoch, entry.record.writer)
            is_fence = record.HasField("fence")
            if not (fencing.fence(identity) if is_fence else fencing.admits(identity)):
                continue
            if (record.fragment.index == 0 and not is_fence) or record.history != last.history:
                body = []
            if not is_fence:
                body.append(entry.value)
            last = record
        assert fencing.in_force is not None
        reader = ChangesReader()
        for value in body:
            for _ in reader.feed(value):
                pass
        tail = Tail(
            epoch=last.epoch,
            history=last.history,
            system_identifier=last.system_identifier,
            timeline=last.timeline,
            committed_lsn=max(reader.committed_lsn, Lsn(last.committed_lsn)),
            committed_seq=max(reader.committed_seq, Seq(last.committed_seq)),
        )
        return tail, fencing.in_force

    def _entries(self, start: int, end: int) -> Iterator[Entry]:
        self._reader.seek_to(start)
        while self._reader.position < end:
            messages = self._reader.read(1000, READ_TIMEOUT_S)
            self._while_waiting()
            for message in messages:
                offset, value = message.offset(), message.value()
                assert offset is not None and value is not None
                if offset < end:
                    yield Entry(offset, value, ChangesRecord.FromString(value))


class ChangesLog:
    """Appends to the log as one writer; tells up to which LSN everything is safe in Kafka."""

    def __init__(self, kafka: Kafka, *, record_bytes: int, while_waiting: Callable[[], None]) -> None:
        self._writer = Writer(kafka, CHANGES.name, client_id=CLIENT_ID, partition=0, while_waiting=while_waiting)
        self._record_bytes = record_bytes
        self._header: Header | None = None
        self.durable_lsn = Lsn(0)

    def fence(self, header: Header, fence: Fence, position: Position) -> int:
        """Write our fence and return its offset; nothing else of ours may be sent before it is known to be in force."""
        self._header = header
        record = header.record(position)
        record.fence.CopyFrom(fence)
        offsets: list[int] = []
        self._writer.send(record.SerializeToString(), on_delivered=offsets.append)
        while not offsets:
            self._writer.flush(READ_TIMEOUT_S)
        return offsets[0]

    def append(self, cut: Cut) -> int:
        """Send a segment, in pieces if it is larger than a record may be, and return its size in bytes."""
        assert self._header is not None
        record = self._header.record(cut.before)
        size = cut.segment.ByteSize()
        if size <= self._record_bytes:
            record.segment.CopyFrom(cut.segment)
            self._writer.send(record.SerializeToString(), on_delivered=self._note(cut.after.lsn))
            return size
        whole = cut.segment.SerializeToString()
        starts = range(0, size, self._record_bytes)
        for index, start in enumerate(starts):
            piece = whole[start : start + self._record_bytes]
            record.fragment.CopyFrom(Fragment(index=index, count=len(starts), piece=piece))
            is_last = index == len(starts) - 1
            self._writer.send(record.SerializeToString(), on_delivered=self._note(cut.after.lsn) if is_last else None)
        return size

    def heartbeat(self, position: Position, written_us: int) -> None:
        assert self._header is not None
        record = self._header.record(position)
        record.heartbeat.CopyFrom(Heartbeat(lsn=position.lsn, written_us=written_us))
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
