"""Which gateways get a record, by the subscriptions of its query."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.tidewire.v1.deltas_pb2 import DeltaRecord
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord

QUERY_ID_BYTES = 16


class Gateway(Struct, frozen=True):
    """A gateway process, and the partition of `deliveries` that it reads."""

    id: str
    partition: int


class Addressed(Struct, frozen=True):
    partition: int
    key: bytes
    delivery: Delivery


class Interest:
    """Which gateways want which queries, in one partition."""

    def __init__(self) -> None:
        self._of: dict[bytes, Gateway] = {}
        self._gateways: dict[bytes, Counter[Gateway]] = {}

    def put(self, key: bytes, record: SubscriptionRecord | None) -> Addressed | None:
        """Take a record of `subscriptions` in; a refusal is handed on and forgotten."""
        self._forget(key)
        if record is None:
            return None
        gateway = Gateway(record.gateway_id, record.delivery_partition)
        if record.HasField("refused"):
            return Addressed(gateway.partition, key, Delivery(gateway_id=gateway.id, subscription=record))
        self._of[key] = gateway
        self._gateways.setdefault(key[:QUERY_ID_BYTES], Counter())[gateway] += 1
        return None

    def route(self, record: DeltaRecord) -> Iterator[Addressed]:
        """One delivery for each gateway that wants the record."""
        if record.HasField("snapshot"):
            snapshot = record.snapshot
            delivery = Delivery(gateway_id=snapshot.gateway_id, delta=record)
            yield Addressed(snapshot.delivery_partition, snapshot.result.query_id, delivery)
            return
        for gateway in self._gateways.get(record.delta.query_id, ()):
            yield Addressed(gateway.partition, record.delta.query_id, Delivery(gateway_id=gateway.id, delta=record))

    def _forget(self, key: bytes) -> None:
        gateway = self._of.pop(key, None)
        if gateway is None:
            return
        query_id = key[:QUERY_ID_BYTES]
        self._gateways[query_id][gateway] -= 1
        if not self._gateways[query_id][gateway]:
            del self._gateways[query_id][gateway]
        if not self._gateways[query_id]:
            del self._gateways[query_id]
