"""The end of the log: the last valid record, and where a new writer continues."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeAlias

from msgspec import Struct

from proto.positions import Lsn, Seq
from proto.streams.changes import ChangesReader
from proto.streams.fencing import Fencing
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import ChangesRecord
from services.capture.core.continuity import Ledger, Tail


class TailRecord(Struct, frozen=True):
    offset: int
    value: bytes
    record: ChangesRecord


# The entries of the log from one offset up to another.
Stretch: TypeAlias = Callable[[int, int], Iterable[TailRecord]]


def fold_from(stretch: Stretch, ledger: Ledger, noted_fence_offset: int, low: int, high: int) -> int:
    """An offset from which `fold` is sure to find the last valid record."""
    if ledger.epoch > ledger.fenced:
        # A takeover was begun and not noted as done: its fence may stand anywhere behind the last one noted.
        return max(low, noted_fence_offset) if noted_fence_offset < high else low
    for span in (8 << 2 * step for step in count()):
        start = max(low, high - span)
        found: int | None = None
        for entry in stretch(start, high):
            if entry.record.epoch > ledger.epoch:
                # The database was set back and does not know the highest fence, which may stand anywhere.
                return low
            # No higher fence exists, so a record of this epoch is in force.
            if found is None and entry.record.epoch == ledger.fenced and entry.record.fragment.index == 0:
                found = entry.offset
        if found is not None or start == low:
            return low if found is None else found
    raise AssertionError("unreachable")


def fold(entries: Iterable[TailRecord]) -> tuple[Tail, Identity]:
    """The last valid record and its writer; a segment with missing pieces does not count."""
    fencing, last, body = Fencing(), ChangesRecord(), list[bytes]()
    for entry in entries:
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
