"""A table as the catalog describes it."""

from msgspec import Struct

from proto.pgoutput.messages import ABSENT, Relation, Row
from proto.rows import ResultRow


class TableColumn(Struct, frozen=True, kw_only=True):
    name: str
    type_oid: int
    type_modifier: int
    type_name: str
    # Equal only when the bytes are equal.
    deterministic: bool


class Table(Struct, frozen=True, kw_only=True):
    """`key` are the positions of the primary key's columns; empty if there is none."""

    oid: int
    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[int, ...]
    # Why rows of the log cannot stand for rows of the table; empty if they can.
    obstacle: str = ""

    def position(self, name: str) -> int | None:
        for position, column in enumerate(self.columns):
            if column.name == name:
                return position
        return None


class Shape:
    """How rows of the log, in the order of their relation's columns, become rows of the table."""

    def __init__(self, table: Table, relation: Relation) -> None:
        places = {column.name: place for place, column in enumerate(relation.columns)}
        self.matches = all(column.name in places for column in table.columns)
        self.identity_is_whole = relation.identity == "f"
        self._places = [places.get(column.name, 0) for column in table.columns]
        self.identity = tuple(
            position
            for position, column in enumerate(table.columns)
            if column.name in places and relation.columns[places[column.name]].is_identity
        )

    def row(self, logged: Row, old: ResultRow | None) -> ResultRow:
        """A row of the table; what the log leaves out is as it was in `old`."""
        values: list[bytes | None] = []
        for position, place in enumerate(self._places):
            value = logged[place]
            if value is ABSENT:
                assert old is not None, "the log leaves a value out only of a row that it has had before"
                value = old[position]
            values.append(value)
        return tuple(values)

    def identity_of(self, logged: Row) -> ResultRow:
        """The values by which the log names a row that was there."""
        values: list[bytes | None] = []
        for position in self.identity:
            value = logged[self._places[position]]
            values.append(None if value is ABSENT else value)
        return tuple(values)
