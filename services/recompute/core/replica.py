"""The rows of one table at a commit, kept up with the log."""

from collections import Counter
from collections.abc import Iterable

from proto.pgoutput.messages import Relation
from proto.rows import ResultRow
from proto.streams.changes import RowChanged, Truncated
from services.recompute.core.table import Shape, Table

Signed = dict[ResultRow, int]


class Diverged(Exception):
    """A change does not fit the replica's rows: the table must be taken anew."""


class Replica:
    """Thin: all rows in memory, as a multiset and, where the log names rows by a key, by that key as well."""

    def __init__(self, table: Table, rows: Iterable[ResultRow]) -> None:
        self.table = table
        self.rows: Counter[ResultRow] = Counter(rows)
        self._relation: Relation | None = None
        self._shape: Shape | None = None
        self._by_identity: dict[ResultRow, ResultRow] = {}

    def change(self, event: RowChanged | Truncated, net: Signed) -> None:
        """Take one change in, and add what it means to `net`."""
        if isinstance(event, Truncated):
            for row, count in self.rows.items():
                _add(net, row, -count)
            self.rows.clear()
            self._by_identity.clear()
            return
        shape = self._shape_of(event.relation)
        old = self._old(shape, event)
        if old is not None:
            self._remove(shape, old, net)
        if event.after is not None:
            new = shape.row(event.after, old)
            self.rows[new] += 1
            _add(net, new, 1)
            if not shape.identity_is_whole:
                self._by_identity[_identity(shape, new)] = new

    def _old(self, shape: Shape, event: RowChanged) -> ResultRow | None:
        if event.operation == "insert":
            return None
        if shape.identity_is_whole:
            if event.before is None:
                raise Diverged("a change of a table without a key has no old row")
            return shape.row(event.before, None)
        named = event.before if event.before is not None else event.after
        assert named is not None
        old = self._by_identity.get(shape.identity_of(named))
        if old is None:
            raise Diverged(f"a row of {self.table.schema}.{self.table.name} that changed is not in the replica")
        return old

    def _remove(self, shape: Shape, old: ResultRow, net: Signed) -> None:
        if self.rows[old] < 1:
            raise Diverged(f"a row of {self.table.schema}.{self.table.name} went that is not in the replica")
        self.rows[old] -= 1
        if not self.rows[old]:
            del self.rows[old]
        if not shape.identity_is_whole:
            del self._by_identity[_identity(shape, old)]
        _add(net, old, -1)

    def _shape_of(self, relation: Relation) -> Shape:
        if self._shape is None or self._relation != relation:
            shape = Shape(self.table, relation)
            if not shape.matches:
                raise Diverged(f"{self.table.schema}.{self.table.name} has other columns than when it was loaded")
            self._relation, self._shape = relation, shape
            self._by_identity = {}
            if not shape.identity_is_whole:
                self._by_identity = {_identity(shape, row): row for row in self.rows}
        return self._shape


def _identity(shape: Shape, row: ResultRow) -> ResultRow:
    return tuple(row[position] for position in shape.identity)


def _add(net: Signed, row: ResultRow, weight: int) -> None:
    total = net.get(row, 0) + weight
    if total:
        net[row] = total
    else:
        net.pop(row, None)
