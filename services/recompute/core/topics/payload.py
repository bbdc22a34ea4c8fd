"""The payload and the key of a message, from the images of a row (decision 13).

Values are PostgreSQL's own text; those that are JSON by themselves stand as they are.
"""

import orjson
from msgspec import Struct

from proto.pgoutput.messages import ABSENT, Relation, Row, Value
from services.recompute.core.topics.source_table import SourceTable

_BOOL, _JSON, _JSONB = 16, 114, 3802
_INTEGERS = frozenset({20, 21, 23, 26})
# Finite ones only: NaN and the infinities are no JSON.
_NUMBERS = frozenset({700, 701, 1700})
_NOT_FINITE = frozenset({b"NaN", b"Infinity", b"-Infinity"})


class Change(Struct, frozen=True, kw_only=True):
    """One changed row, of a table or of a partition of it."""

    relation: Relation
    operation: str  # insert, update, delete
    before: Row | None
    after: Row | None

    @property
    def row(self) -> Row:
        """The row that the change is about: the new one, or of a delete the old one."""
        row = self.before if self.operation == "delete" else self.after
        assert row is not None
        return row


class Rendering:
    """How the columns of one relation are written; made once for each shape of a table."""

    def __init__(self, table: SourceTable, relation: Relation, base_types: dict[int, int]) -> None:
        self.relation = relation
        self._names = [orjson.dumps(column.name) for column in relation.columns]
        self._types = [base_types.get(column.type_oid, column.type_oid) for column in relation.columns]
        self.places = {column.name: place for place, column in enumerate(relation.columns)}
        key = [self.places[name] for name in table.key if name in self.places]
        self._key = key if table.key and len(key) == len(table.key) else list(range(len(relation.columns)))
        self._sorted_key = sorted(self._key, key=lambda place: relation.columns[place].name)
        self._table = b'"_table":' + orjson.dumps(f"{table.schema}.{table.name}")

    def payload(self, mode: str, change: Change) -> bytes:
        is_delete = change.operation == "delete"
        if mode == "Key":
            parts = self._columns(change.row, self._key)
        elif mode == "Full" or is_delete:
            parts = [*self._columns(change.row, range(len(self._names))), self._table]
        else:
            parts = [*self._columns(change.row, self._key), self._table, self._changed(change)]
        if is_delete:
            parts.append(b'"_deleted":true')
        return b"{" + b",".join(parts) + b"}"

    def key(self, change: Change) -> str:
        """The primary key's text; of several columns a JSON object, sorted by name."""
        row = change.row
        if len(self._key) == 1 and isinstance(value := row[self._key[0]], bytes):
            return value.decode("utf-8", "surrogateescape")
        return (b"{" + b",".join(self._columns(row, self._sorted_key)) + b"}").decode("utf-8", "surrogateescape")

    def column_text(self, change: Change, column: str) -> str | None:
        """The text of one column; None if it is NULL, not in the log, or gone."""
        place = self.places.get(column)
        value = None if place is None else change.row[place]
        return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else None

    def _columns(self, row: Row, places: "range | list[int]") -> list[bytes]:
        parts = [
            self._names[place] + b":" + self._value(place, row[place]) for place in places if row[place] is not ABSENT
        ]
        if ABSENT in row and (absent := [self._names[place] for place in places if row[place] is ABSENT]):
            parts.append(b'"_absent":[' + b",".join(absent) + b"]")
        return parts

    def _changed(self, change: Change) -> bytes:
        after = change.row
        before: Row = change.before if change.before is not None else (None,) * len(after)
        places = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        if change.operation == "insert":
            places = list(range(len(after)))
        parts = [
            self._names[place]
            + b':{"old":'
            + self._value(place, before[place])
            + b',"new":'
            + self._value(place, after[place])
            + b"}"
            for place in places
            if before[place] is not ABSENT and after[place] is not ABSENT
        ]
        return b'"_changed":{' + b",".join(parts) + b"}"

    def _value(self, place: int, value: Value) -> bytes:
        if not isinstance(value, bytes):
            return b"null"
        type_oid = self._types[place]
        if type_oid in _INTEGERS or type_oid in (_JSON, _JSONB):
            return value
        if type_oid == _BOOL:
            return b"true" if value == b"t" else b"false"
        if type_oid in _NUMBERS and value not in _NOT_FINITE:
            return value
        return orjson.dumps(value.decode("utf-8", "replace"))
