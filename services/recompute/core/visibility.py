"""Which transactions a snapshot of PostgreSQL sees."""

from msgspec import Struct

from proto.positions import Xid

_EPOCH = 1 << 32


class Snapshot(Struct, frozen=True):
    """As pg_current_snapshot() shows it: xids below xmin are finished, from xmax on unseen, between them as listed."""

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        xmin, xmax, listed = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, listed.split(","))) if listed else frozenset())

    def sees(self, xid: Xid) -> bool:
        """Whether a committed transaction is visible; the log's xids have 32 bits, the snapshot's 64."""
        whole = self.xmax - (self.xmax - xid) % _EPOCH
        if whole <= self.xmax - (_EPOCH >> 1):
            whole += _EPOCH
        return whole < self.xmax and whole not in self.in_progress
