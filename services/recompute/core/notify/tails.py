"""What stands in a partition of `notifications`: the last seq and gen of each query, and its state."""

from msgspec import Struct

from proto.streams.fencing import Fencing, Writer
from proto.tidewire.v1.notifications_pb2 import NOTIFICATION_KIND_FAILED, NotificationRecord


class Tail(Struct, frozen=True):
    """The last record of a query."""

    gen: int
    seq: int
    state_hash: bytes
    is_failed: bool


class PartitionTail:
    """Folds one partition, record by record; what a fenced-off worker wrote does not count."""

    def __init__(self) -> None:
        self.fencing = Fencing()
        self.tails: dict[str, Tail] = {}

    @property
    def epoch(self) -> int:
        return self.fencing.in_force.epoch if self.fencing.in_force is not None else 0

    def feed(self, record: NotificationRecord) -> None:
        writer = Writer(record.epoch, record.writer)
        body = record.WhichOneof("body")
        if body == "fence":
            self.fencing.fence(writer)
        elif self.fencing.admits(writer) and body == "notification":
            told = record.notification
            self.tails[told.query_id] = Tail(told.gen, told.seq, told.state_hash, told.kind == NOTIFICATION_KIND_FAILED)
