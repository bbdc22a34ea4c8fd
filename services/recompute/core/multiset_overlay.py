"""Changes on top of the base of a table without a key."""

from collections.abc import Iterable, Sequence

from proto.pgoutput.messages import Row
from proto.rows import ResultRow
from proto.streams.changes import RowChanged, Truncated
from services.recompute.core.catalog import Table
from services.recompute.core.log_columns import LogColumnsByRelation, known
from services.recompute.core.row_changes import Changes, Diverged


class MultisetOverlay:
    """How many more or fewer of each row there are than in the base.

    Rows of which there are fewer must be counted in the base once (`unresolved`, `resolve`): then all of the base's are
    hidden, and as many as are left are added.
    """

    def __init__(self, table: Table) -> None:
        self._name = f"{table.schema}.{table.name}"
        self._log_columns = LogColumnsByRelation(table)
        self._weights: dict[ResultRow, int] = {}
        self._in_base: dict[ResultRow, int] = {}
        self._net: dict[ResultRow, int] = {}
        self._emptied = False
        # The weights when the overlay was frozen, None if it is not.
        self._frozen: dict[ResultRow, int] | None = None
        self.hides_base = False
        self.version = 0

    def __len__(self) -> int:
        return len(self._weights)

    def hold(self, rows: Iterable[ResultRow]) -> None:
        """Take these for all rows of the table, in the place of a base."""
        self.hides_base = True
        self._weights = {}
        for row in rows:
            _add(self._weights, row, 1)
        self.version += 1

    def change(self, event: RowChanged | Truncated) -> None:
        self.version += 1
        if isinstance(event, Truncated):
            self._weights, self._in_base, self._net = {}, {}, {}
            self._frozen = None
            self.hides_base = self._emptied = True
            return
        shape = self._log_columns.of(event.relation)
        if event.operation != "insert":
            if event.before is None or not shape.is_whole:
                raise Diverged(f"a change of {self._name}, which has no key, has no old row")
            self._count(shape.row(event.before), -1)
        if event.after is not None:
            self._count(shape.row(event.after), 1)

    def unresolved(self) -> list[ResultRow]:
        """Rows whose number in the base is needed."""
        if self.hides_base:
            return []
        return [row for row, weight in self._weights.items() if weight < 0 and row not in self._in_base]

    def resolve(self, found: Sequence[tuple[ResultRow, int]]) -> None:
        """Take how many of each unresolved row the base has."""
        self._in_base.update(found)
        for row, count in found:
            if count + self._weights.get(row, 0) < 0:
                raise Diverged(f"a row of {self._name} went that is not in the replica")

    def hidden(self) -> list[ResultRow]:
        """Rows that are hidden in the base."""
        return [row for row, weight in self._weights.items() if weight < 0]

    def added(self) -> list[ResultRow]:
        """Rows in addition to the base, each as often as it occurs."""
        rows: list[ResultRow] = []
        for row, weight in self._weights.items():
            count = weight if weight > 0 else self._in_base.get(row, 0) + weight
            rows += [row] * count
        return rows

    def changes(self) -> Changes:
        return Changes([], list(self._net.items()), self._emptied)

    def clear_changes(self) -> None:
        self._net, self._emptied = {}, False

    def freeze(self) -> None:
        """Record changes from now on separately, while the present rows are made the new base."""
        self._frozen = dict(self._weights)

    def rebase(self) -> bool:
        """The rows at the time of `freeze` are the base now; false if a TRUNCATE came since then."""
        frozen, self._frozen = self._frozen, None
        if frozen is None:
            return False
        for row, weight in frozen.items():
            _add(self._weights, row, -weight)
        self._in_base = {}
        self.hides_base = False
        self.version += 1
        return True

    def _count(self, logged: Row, weight: int) -> None:
        row = known(logged)
        _add(self._weights, row, weight)
        left = self._weights.get(row, 0)
        if left < 0 and (self.hides_base or left + self._in_base.get(row, -left) < 0):
            raise Diverged(f"a row of {self._name} went that is not in the replica")
        _add(self._net, row, weight)


def _add(weights: dict[ResultRow, int], row: ResultRow, weight: int) -> None:
    total = weights.get(row, 0) + weight
    if total:
        weights[row] = total
    else:
        weights.pop(row, None)
