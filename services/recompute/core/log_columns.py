"""Maps the columns of the log's rows to the columns of a table."""

from operator import itemgetter

from proto.pgoutput.messages import ABSENT, Relation, Row
from proto.rows import ResultRow
from services.recompute.core.catalog import Table
from services.recompute.core.row_changes import Diverged


class LogColumns:
    """Where each column of the table is in rows of one description of the relation in the log."""

    def __init__(self, table: Table, relation: Relation) -> None:
        places = {column.name: place for place, column in enumerate(relation.columns)}
        missing = [column.name for column in table.columns if column.name not in places]
        if missing:
            raise Diverged(f"the log has no column {missing[0]!r} of {table.schema}.{table.name}")
        self._places = [places[column.name] for column in table.columns]
        self._is_same = self._places == list(range(len(relation.columns)))
        self.is_whole = relation.identity == "f"
        self.identity = frozenset(
            position for position, place in enumerate(self._places) if relation.columns[place].is_identity
        )

    def row(self, logged: Row) -> Row:
        """A row of the table; what the log leaves out stays ABSENT."""
        return logged if self._is_same else tuple([logged[place] for place in self._places])


class LogColumnsByRelation:
    """The mapping for the latest description of a table's relation."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._relation: Relation | None = None
        self._columns: LogColumns | None = None

    def of(self, relation: Relation) -> LogColumns:
        if self._columns is None or (relation is not self._relation and relation != self._relation):
            self._columns, self._relation = LogColumns(self._table, relation), relation
        return self._columns


def known(row: Row) -> ResultRow:
    """A row that the log gave whole."""
    if ABSENT in row:
        raise Diverged("the log left a value out of a row that it should have whole")
    return row  # type: ignore[return-value]


class KeyOf:
    """The values of the key's columns, as a tuple."""

    def __init__(self, key: tuple[int, ...]) -> None:
        self.positions = key
        self._one = key[0] if len(key) == 1 else None
        self._many = itemgetter(*key)

    def __call__(self, row: Row) -> ResultRow:
        return known((row[self._one],) if self._one is not None else self._many(row))
