"""From a change to the messages that it may become: candidates, whose filters PostgreSQL judges."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from proto.pgoutput.messages import Relation
from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation, TopicPayload
from services.recompute.core.topics.definition import Definition, Route, RouteIndex, hashed
from services.recompute.core.topics.payload import Change, Rendering
from services.recompute.core.topics.source_table import SourceTable, SourceTables

OPERATIONS = {
    "insert": TopicOperation.TOPIC_OPERATION_INSERT,
    "update": TopicOperation.TOPIC_OPERATION_UPDATE,
    "delete": TopicOperation.TOPIC_OPERATION_DELETE,
}
# A dead letter's number has the seq in the lower bits, and above them which row of a TRUNCATE it is.
SEQ_BITS = 40
MOST_ROWS = (1 << 63 - SEQ_BITS) - 1
PAYLOADS = {
    "Key": TopicPayload.TOPIC_PAYLOAD_KEY,
    "Full": TopicPayload.TOPIC_PAYLOAD_FULL,
    "Diff": TopicPayload.TOPIC_PAYLOAD_DIFF,
}


class Place(Struct, frozen=True, kw_only=True):
    """Where in the log a change stands."""

    history: int
    seq: int
    lsn: int
    ordinal: int
    committed_us: int
    # Which one of the rows that a TRUNCATE took away, which share all the rest.
    row: int = 0

    @property
    def number(self) -> int:
        """The seq, and for the further rows of a TRUNCATE another number of 63 bits each."""
        return self.seq + (min(self.row, MOST_ROWS) << SEQ_BITS)


class Candidate(Struct, frozen=True):
    """A change and a route of its table and operation; a message if the route's filter is true of it."""

    definition: Definition
    route: Route
    table: SourceTable
    change: Change
    place: Place
    actor: str | None = None
    # Set where the change cannot be judged at all.
    trouble: str | None = None

    def named(self, actor: str | None) -> "Candidate":
        """The same, by this actor."""
        return self if actor is None else Candidate(*self._facts(), actor, self.trouble)

    def _facts(self) -> tuple[Definition, Route, SourceTable, Change, Place]:
        return self.definition, self.route, self.table, self.change, self.place


class Routing:
    """The routes of one group of topics over the tables that they read."""

    def __init__(self, index: RouteIndex, sources: SourceTables) -> None:
        self._index, self._sources = index, sources
        self._roots = sources.roots_of()
        self._renderings: dict[tuple[int, int], Rendering] = {}

    def reads(self, oid: int) -> bool:
        return oid in self._roots

    def candidates(self, change: Change, place: Place, trouble: str | None = None) -> Iterator[Candidate]:
        """By the routes whose maker may read the table; in the order of topic and route."""
        for table in self._roots.get(change.relation.oid, ()):
            for definition, route in self._index.of(table.oid, change.operation):
                if route.role in table.readers:
                    yield Candidate(definition, route, table, change, place, None, trouble)

    def rendering(self, table: SourceTable, relation: Relation) -> Rendering:
        held = self._renderings.get((table.oid, relation.oid))
        if held is None or (held.relation is not relation and held.relation != relation):
            held = Rendering(table, relation, self._sources.base_types)
            self._renderings[table.oid, relation.oid] = held
        return held

    def message(self, candidate: Candidate, next_offsets: Sequence[int] = ()) -> TopicMessage:
        """With the next offset of its partition, if they are given."""
        definition, route, change, place = candidate.definition, candidate.route, candidate.change, candidate.place
        rendering = self.rendering(candidate.table, change.relation)
        key = rendering.key(change)
        by = key if route.partition_key is None else rendering.column_text(change, route.partition_key) or ""
        partition = hashed(by) % definition.partitions if definition.partitions > 1 else 0
        return TopicMessage(
            topic_id=definition.topic_id,
            partition=partition,
            offset=next_offsets[partition] if next_offsets else 0,
            history=place.history,
            seq=place.seq,
            lsn=place.lsn,
            ordinal=place.ordinal,
            route=route.route,
            committed_us=place.committed_us,
            source_schema=candidate.table.schema,
            source_table=candidate.table.name,
            operation=OPERATIONS[change.operation],
            payload_mode=PAYLOADS[route.payload_mode],
            payload=rendering.payload(route.payload_mode, change),
            key=key.encode("utf-8", "replace").decode(),
            user=candidate.actor or candidate.table.owner,
            user_is_claimed=candidate.actor is not None,
        )
