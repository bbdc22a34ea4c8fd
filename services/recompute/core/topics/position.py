"""How far the routes of a group have come in the log."""

from msgspec import Struct

from proto.tidewire.v1.topic_states_pb2 import RoutesPosition

WHOLE = 0xFFFFFFFF


class Position(Struct, frozen=True, kw_only=True):
    """All up to this change has been routed; `first_seq` is that of the commit to read next, or to read on."""

    history: int
    lsn: int
    ordinal: int = WHOLE
    first_seq: int

    @classmethod
    def of(cls, record: RoutesPosition) -> "Position":
        return cls(history=record.history, lsn=record.lsn, ordinal=record.ordinal, first_seq=record.first_seq)

    def record(self, written_us: int) -> RoutesPosition:
        return RoutesPosition(
            history=self.history,
            lsn=self.lsn,
            ordinal=self.ordinal,
            first_seq=self.first_seq,
            written_us=written_us,
        )

    def covers(self, history: int, lsn: int, ordinal: int) -> bool:
        """Whether that change has been routed, or belongs to a log that is gone."""
        return (history, lsn, ordinal) <= (self.history, self.lsn, self.ordinal)
