"""The reader of `deltas`: what a reader who holds a state may do with the next record of its query."""

from enum import Enum

from msgspec import Struct

from proto.positions import Lsn
from proto.streams.fencing import Fencing, Writer
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, DELTA_KIND_FULL, Delta, DeltaRecord


class Verdict(Enum):
    APPLY = "apply"  # add the rows with their weights, or replace all by them (FULL)
    DROP = "drop"  # void, or already contained in the state
    RESYNC = "resync"  # something is missing between: ask for a whole result


class Standing(Struct, frozen=True):
    """The state that a reader holds of one query."""

    history: int
    lsn: Lsn
    moment_us: int


class PartitionReader:
    """Drops what fenced-off workers wrote into one partition."""

    def __init__(self) -> None:
        self._fencing = Fencing()

    def feed(self, record: DeltaRecord) -> DeltaRecord | None:
        writer = Writer(record.epoch, record.writer)
        if record.WhichOneof("body") == "fence":
            self._fencing.fence(writer)
            return None
        return record if self._fencing.admits(writer) else None


def judge(standing: Standing | None, delta: Delta) -> Verdict:
    """Applied only if it starts where the reader stands; a whole result starts anywhere, but never goes back."""
    if standing is not None and delta.history < standing.history:
        return Verdict.DROP
    if standing is not None and delta.history == standing.history:
        if (delta.to_lsn, delta.moment_us) <= (standing.lsn, standing.moment_us):
            return Verdict.DROP
        starts_here = (delta.from_lsn, delta.from_moment_us) == (standing.lsn, standing.moment_us)
        if starts_here and delta.kind != DELTA_KIND_ERROR:
            return Verdict.APPLY
    if delta.kind in (DELTA_KIND_FULL, DELTA_KIND_ERROR):
        return Verdict.APPLY
    return Verdict.RESYNC


def standing_after(delta: Delta) -> Standing:
    return Standing(delta.history, Lsn(delta.to_lsn), delta.moment_us)
