"""The rows that a TRUNCATE took away, as deletes."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from proto.pgoutput.messages import ABSENT, Relation, Row
from services.recompute.core.topics.payload import Change

UNKNOWN = "TRUNCATE: which rows it took away is not in the log"


class TruncatedRows(Struct, frozen=True):
    """A mark of our trigger: some rows of a table, in the log's text."""

    relid: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]

    def deletes(self, relation: Relation) -> Iterator[Change]:
        places = {name: place for place, name in enumerate(self.columns)}
        order = [places.get(column.name) for column in relation.columns]
        for row in self.rows:
            before: Row = tuple([ABSENT if place is None else _bytes(row[place]) for place in order])
            yield Change(relation=relation, operation="delete", before=before, after=None)


def read_rows(content: bytes) -> TruncatedRows:
    return msgspec.json.decode(content, type=TruncatedRows, strict=False)


class _Table(Struct, frozen=True):
    relid: int


def table_of(content: bytes) -> int:
    """Whose rows a mark has; the rows are left as they are."""
    return msgspec.json.decode(content, type=_Table, strict=False).relid


def nothing_known(relation: Relation) -> Change:
    """Stands for all rows of a TRUNCATE whose rows nobody noted."""
    return Change(relation=relation, operation="delete", before=(ABSENT,) * len(relation.columns), after=None)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
