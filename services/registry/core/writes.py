"""The records that the registry writes, and how those of many commands are combined."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from proto.tidewire.v1.queries_pb2 import Query
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord


class PutSubscription(Struct, frozen=True, tag=True):
    """A record of `subscriptions`; None ends it."""

    query_id: bytes
    subscription_id: bytes
    record: SubscriptionRecord | None

    @property
    def key(self) -> bytes:
        return self.query_id + self.subscription_id

    @property
    def is_refusal(self) -> bool:
        return self.record is not None and self.record.HasField("refused")


class PutQuery(Struct, frozen=True, tag=True):
    """A record of `queries`; None ends it.

    It is made when it is written: of a thousand subscribes to one query in a batch only one record counts.
    """

    query_id: bytes
    make: Callable[[], Query] | None

    @property
    def query(self) -> Query | None:
        return None if self.make is None else self.make()


Write: TypeAlias = PutSubscription | PutQuery


class Batch(Struct, frozen=True):
    """The subscriptions must be safe before the queries: a fanout must know who waits before a first result comes."""

    subscriptions: tuple[PutSubscription, ...]
    queries: tuple[PutQuery, ...]


def batch(writes: Iterable[Write]) -> Batch:
    """Of each query only the last record counts; of a subscription a refusal must be seen before the end."""
    subscriptions: list[PutSubscription] = []
    queries: dict[bytes, PutQuery] = {}
    for write in writes:
        if isinstance(write, PutSubscription):
            subscriptions.append(write)
        else:
            queries[write.query_id] = write
    return Batch(tuple(subscriptions), tuple(queries.values()))
