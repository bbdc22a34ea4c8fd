"""Events as they go to clients (S14 to S17): encoded once for all subscriptions that show them alike."""

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from proto.pgoutput.messages import ABSENT, Relation, Row
from proto.streams.changes import RowChanged
from services.gateway.core.cdc.literals import PLAIN, PLAIN_NULL, TYPED, TYPED_NULL, Show
from services.gateway.core.cdc.matching import key_of
from services.gateway.core.cdc.subscription import Wishes
from services.gateway.core.cdc.types import family_of


class Look(Struct, frozen=True):
    """Everything that the bytes of an event depend on, beside the change."""

    is_plain: bool
    before: bool
    after: bool
    columns: tuple[str, ...]

    @classmethod
    def of(cls, wishes: Wishes) -> "Look":
        return cls(wishes.format == "plain_json", wishes.before, wishes.after, wishes.columns)


class Columns(Struct, frozen=True):
    """A relation's columns: where each is, and how its values are shown."""

    relation: Relation
    places: dict[str, int]
    typed: tuple[Show, ...]
    plain: tuple[Show, ...]

    @classmethod
    def of(cls, relation: Relation, base_types: Mapping[int, int], only: frozenset[str] | None = None) -> "Columns":
        """All columns, or those of `only` alone: the others are not there for whoever reads them."""
        families = [family_of(base_types.get(column.type_oid, column.type_oid)) for column in relation.columns]
        return cls(
            relation,
            {
                column.name: place
                for place, column in enumerate(relation.columns)
                if only is None or column.name in only
            },
            tuple(TYPED[family] for family in families),
            tuple(PLAIN[family] for family in families),
        )

    def image(self, row: Row, look: Look) -> dict[str, Any]:
        """The row as an object; columns that the log does not carry are not in it."""
        shows, null = (self.plain, PLAIN_NULL) if look.is_plain else (self.typed, TYPED_NULL)
        names = look.columns or self.places
        return {
            name: null if value is None else shows[place](value)
            for name in names
            if (place := self.places.get(name)) is not None and (value := row[place]) is not ABSENT
        }

    def key(self, row: Row | None, key: list[str], *, is_plain: bool) -> list[Any] | None:
        values = key_of(row, key, self.places)
        if values is None:
            return None
        shows = self.plain if is_plain else self.typed
        return [shows[self.places[name]](value) for name, value in zip(key, values, strict=True)]


def event_of(change: RowChanged, columns: Columns, key: list[str], database: str, look: Look) -> dict[str, Any]:
    """One change as an event of a table."""
    event: dict[str, Any] = {
        "seq": change.seq,
        "db": database,
        "table": _shown(columns.relation),
        "op": change.operation,
    }
    row = change.before if change.operation == "delete" else change.after
    pk = columns.key(row, own_key(columns, key), is_plain=look.is_plain)
    if pk is not None:
        event["pk"] = pk
    if look.before and change.before is not None:
        event["before"] = columns.image(change.before, look)
    if look.after and change.after is not None:
        event["after"] = columns.image(change.after, look)
    event["commit_ts_ms"] = change.commit_time_us // 1000
    event["lsn"] = change.seq
    return event


def own_key(columns: Columns, key: list[str]) -> list[str]:
    """The key's columns as they were then: of a key of one column that has another name now, or was another."""
    if len(key) != 1 or key[0] in columns.places or columns.relation.identity != "d":
        return key
    identity = [column.name for column in columns.relation.columns if column.is_identity]
    return identity if len(identity) == 1 and identity[0] in columns.places else key


def invalidation_of(
    event: Mapping[str, Any], query_id: str, etag: str | None, changed_keys: list[Any] | None
) -> dict[str, Any]:
    """The event of a table as one of a query that depends on it."""
    told = {**event, "op": "invalidate", "query_id": query_id}
    if etag is not None:
        told["etag"] = etag
    if changed_keys is not None:
        told["changed_keys"] = changed_keys
    return told


def changed_keys_of(change: RowChanged, columns: Columns, key: list[str], *, is_plain: bool) -> list[Any]:
    """The keys that the change touched: the old one and the new one, once each."""
    found: list[Any] = []
    for row in (change.before, change.after):
        shown = columns.key(row, own_key(columns, key), is_plain=is_plain)
        if shown is not None and shown not in found:
            found.append(shown)
    return found


def encoded(event: Mapping[str, Any]) -> bytes:
    return orjson.dumps(event)


def sse_event(seq: int, op: str, data: bytes) -> bytes:
    """As an event of SSE; JSON has no line breaks here."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, op.encode(), data)


def sse_control(name: str, data: bytes) -> bytes:
    """Without an id: whoever comes again is where it was, and is told again."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def ws_frame(seq: int, op: str, data: bytes) -> str:
    return f'{{"id":{seq},"event":"{op}","data":{data.decode()}}}'


def _shown(relation: Relation) -> str:
    return relation.name if relation.schema == "public" else f"{relation.schema}.{relation.name}"
