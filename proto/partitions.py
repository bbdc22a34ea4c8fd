"""Which partition a query lives in: the same in `subscriptions`, `queries` and `deltas`."""

from proto.topics import DELTAS, QUERIES, SUBSCRIPTIONS

PARTITIONS = DELTAS.partitions
assert SUBSCRIPTIONS.partitions == QUERIES.partitions == PARTITIONS


def partition_of(query_id: bytes) -> int:
    """A query id is a hash already, so its first bytes are as good as any."""
    return int.from_bytes(query_id[:8]) % PARTITIONS
