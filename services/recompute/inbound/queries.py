"""Reads `queries`: the partitions of this worker, and the queries in them."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.queries_pb2 import Query
from proto.topics import QUERIES
from services.chassis.kafka import GroupReader, Kafka, Partition
from services.chassis.kafka.partitions import PartitionsReader
from services.chassis.seal import Seal

GROUP = "recompute"
MESSAGES_A_READ = 500


class Gained(Struct, frozen=True, tag=True):
    partitions: tuple[int, ...]


class Lost(Struct, frozen=True, tag=True):
    partitions: tuple[int, ...]


class Wanted(Struct, frozen=True, tag=True):
    """A query with its requests for whole results; may come again with others."""

    partition: int
    query: Query


class Ended(Struct, frozen=True, tag=True):
    query_id: bytes


class Watched(Struct, frozen=True, tag=True):
    """A query of another worker, which a warm standby is to be ready for."""

    query: Query


QueriesEvent: TypeAlias = Gained | Lost | Wanted | Ended | Watched


class Queries:
    """A member of the group. No offset is committed: whoever gains a partition reads its queries from the beginning."""

    def __init__(
        self,
        kafka: Kafka,
        seal: Seal,
        *,
        session_timeout_ms: int,
        worker_id: str | None,
        standby: bool,
        log: FilteringBoundLogger,
    ) -> None:
        self._decode = _Decode(seal, log)
        self._events: list[QueriesEvent] = []
        self._owned: set[int] = set()
        self._others = OthersQueries(kafka, self._decode) if standby else None
        self._reader = GroupReader(
            kafka,
            [QUERIES.name],
            group=GROUP,
            client_id=GROUP,
            instance_id=worker_id,
            on_assign=self._gained,
            on_revoke=self._lost,
            extra={"session.timeout.ms": session_timeout_ms, "heartbeat.interval.ms": session_timeout_ms // 4},
        )

    def read(self, timeout_s: float) -> list[QueriesEvent]:
        """What has arrived: gained and lost partitions first, then the last record of each query."""
        messages = self._reader.read(MESSAGES_A_READ, timeout_s)
        events, self._events = self._events, []
        last: dict[bytes, QueriesEvent] = {}
        for message in messages:
            number = self._reader.partition_of(message).number
            key, value = message.key(), message.value()
            assert key is not None
            if number in self._owned:
                query = self._decode(value)
                last[key] = Ended(key) if query is None else Wanted(number, _with_requests(query, last))
        watched = [] if self._others is None else self._others.read(self._owned)
        return [*events, *last.values(), *watched]

    @property
    def is_standby(self) -> bool:
        """Whether queries of other workers are kept ready too."""
        return self._others is not None

    @property
    def owns_any(self) -> bool:
        return bool(self._owned)

    def close(self) -> None:
        self._reader.close()
        if self._others is not None:
            self._others.close()

    def _gained(self, partitions: list[Partition]) -> None:
        numbers = tuple(partition.number for partition in partitions)
        self._owned.update(numbers)
        self._events.append(Gained(numbers))

    def _lost(self, partitions: list[Partition]) -> None:
        numbers = tuple(partition.number for partition in partitions)
        self._owned.difference_update(numbers)
        self._events.append(Lost(numbers))


class _Decode:
    """Decodes a record: a query, or None if it was deleted or not sealed by a registry of ours."""

    def __init__(self, seal: Seal, log: FilteringBoundLogger) -> None:
        self._seal, self._log = seal, log

    def __call__(self, value: bytes | None) -> Query | None:
        if value is None:
            return None
        if self._seal.holds(QUERIES, value):
            return QUERIES.decode(value)
        self._log.warning("query_dropped", reason="its seal is not ours", bytes=len(value))
        return None


def _with_requests(query: Query, last: Mapping[bytes, QueriesEvent]) -> Query:
    """The query with the requests of its earlier record too: a record has room for a limited number."""
    before = last.get(query.query_id)
    if isinstance(before, Wanted):
        named = {one.request_id for one in query.snapshots}
        query.snapshots.extend(one for one in before.query.snapshots if one.request_id not in named)
    return query


class OthersQueries:
    """All queries, whoever owns them: a warm standby keeps their plans and tables."""

    def __init__(self, kafka: Kafka, decode: "_Decode") -> None:
        self._decode = decode
        self._reader = PartitionsReader(kafka, QUERIES.name, client_id=f"{GROUP}-standby")
        self._reader.add({number: self._reader.low_and_high(number)[0] for number in range(QUERIES.partitions)})

    def read(self, owned: set[int]) -> list[QueriesEvent]:
        """What has arrived of partitions that other workers own."""
        last: dict[bytes, QueriesEvent] = {}
        for message in self._reader.read(0):
            key, value, number = message.key(), message.value(), message.partition()
            assert key is not None
            if number not in owned:
                query = self._decode(value)
                last[key] = Ended(key) if query is None else Watched(query)
        return list(last.values())

    def close(self) -> None:
        self._reader.close()
