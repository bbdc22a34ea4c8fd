"""The records that a capture writes: its fence, its segments in pieces that Kafka takes, its heartbeats."""

from collections.abc import Iterator

from msgspec import Struct

from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import ChangesRecord, Fence, Fragment, Heartbeat
from services.capture.core.assembly import Cut, Position


class Header(Struct, frozen=True, kw_only=True):
    """What every record of this writer says of itself."""

    identity: Identity
    history: int
    system_identifier: int
    timeline: int

    def fence(self, fence: Fence, position: Position) -> ChangesRecord:
        record = self._record(position)
        record.fence.CopyFrom(fence)
        return record

    def segments(self, cut: Cut, *, record_bytes: int) -> Iterator[ChangesRecord]:
        """One record, or pieces if the segment is larger than a record may be; only behind the last one it is there."""
        # ByteSize would serialize it as well, which takes long for a large row.
        whole = cut.segment.SerializeToString()
        if len(whole) <= record_bytes:
            record = self._record(cut.before)
            record.segment.CopyFrom(cut.segment)
            yield record
            return
        starts = range(0, len(whole), record_bytes)
        for index, start in enumerate(starts):
            record = self._record(cut.before)
            piece = whole[start : start + record_bytes]
            record.fragment.CopyFrom(Fragment(index=index, count=len(starts), piece=piece))
            yield record

    def heartbeat(self, position: Position, written_us: int) -> ChangesRecord:
        record = self._record(position)
        record.heartbeat.CopyFrom(Heartbeat(lsn=position.lsn, written_us=written_us))
        return record

    def _record(self, position: Position) -> ChangesRecord:
        return ChangesRecord(
            epoch=self.identity.epoch,
            writer=self.identity.writer,
            history=self.history,
            system_identifier=self.system_identifier,
            timeline=self.timeline,
            committed_lsn=position.lsn,
            committed_seq=position.seq,
        )
