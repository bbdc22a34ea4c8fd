"""A durable topic as its mark in the log defines it."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from msgspec import Struct

from proto.topics import TOPIC_STATES


class Route(Struct, frozen=True, kw_only=True):
    """Which changes of which table become messages, and how. `role` made it, and its rights count."""

    route: int
    table_oid: int
    source_schema: str
    source_table: str
    op: str  # Insert, Update, Delete
    payload_mode: str  # Key, Full, Diff
    filter_expr: str | None = None
    partition_key: str | None = None
    role: str

    @property
    def operation(self) -> str:
        """As the log calls it."""
        return self.op.lower()


class Definition(Struct, frozen=True, kw_only=True):
    topic_id: str
    name: str
    partitions: int = 1
    cleared_generation: int = 0
    # For retention, which reads them from the topic's state.
    retention_seconds: int | None = None
    retention_max_bytes: int | None = None
    routes: tuple[Route, ...] = ()


class DefinitionMark(Struct, frozen=True):
    """What a mark says: the topic as it is from this commit on; None: it was dropped."""

    topic_id: str
    definition: Definition | None = None


def read_mark(content: bytes) -> DefinitionMark:
    """PostgreSQL prints oids as JSON strings."""
    return msgspec.json.decode(content, type=DefinitionMark, strict=False)


def read_definition(content: bytes) -> Definition:
    return msgspec.json.decode(content, type=Definition, strict=False)


def write_definition(definition: Definition) -> bytes:
    return msgspec.json.encode(definition)


def group_of(topic_id: str) -> int:
    """The partition of `topic_states` that the topic belongs to: one worker has all of its routes."""
    return hashed(topic_id) % TOPIC_STATES.partitions


def hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest())


class RouteIndex:
    """The routes of some topics by table and operation, in the order of topic and route."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._routes: dict[tuple[int, str], list[tuple[Definition, Route]]] = {}
        for definition in definitions:
            for route in definition.routes:
                self._routes.setdefault((route.table_oid, route.operation), []).append((definition, route))

    @property
    def tables(self) -> frozenset[int]:
        return frozenset(oid for oid, _ in self._routes)

    def of(self, table_oid: int, operation: str) -> list[tuple[Definition, Route]]:
        return self._routes.get((table_oid, operation), [])
