"""The topic `queries`."""

from collections.abc import Iterable

from proto.partitions import partition_of
from proto.tidewire.v1.queries_pb2 import Query
from proto.topics import QUERIES
from services.chassis.kafka import Kafka
from services.chassis.seal import Seal
from services.registry.core.writes import PutQuery
from services.registry.outbound.compacted import Compacted, latest


class Queries:
    def __init__(self, kafka: Kafka, seal: Seal, *, timeout_s: float) -> None:
        self._seal = seal
        self._kafka, self._topic = kafka, Compacted(kafka, QUERIES.name, timeout_s=timeout_s)

    def put(self, writes: Iterable[PutQuery]) -> None:
        """Blocks until Kafka has them all."""
        for write in writes:
            query = write.query
            value = None if query is None else self._seal.sealed(QUERIES, query)
            self._topic.send(write.query_id, value, partition_of(write.query_id))
        self._topic.settle()

    def held(self) -> dict[bytes, Query]:
        return latest(self._kafka, QUERIES, lambda value: self._seal.holds(QUERIES, value))

    def close(self) -> None:
        self._topic.close()
