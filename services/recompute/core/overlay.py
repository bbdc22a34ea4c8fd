"""Changes on top of the base of a table with a key."""

from collections.abc import Iterable, Sequence

from proto.pgoutput.messages import ABSENT, Row
from proto.rows import ResultRow
from proto.streams.changes import RowChanged, Truncated
from services.recompute.core.catalog import Table
from services.recompute.core.log_columns import KeyOf, LogColumnsByRelation, known
from services.recompute.core.row_changes import Changes, Diverged


class Overlay:
    """Each key that changed, with its row or with None where it is gone; the base has the rest.

    A value that the log leaves out (TOAST, unchanged) is ABSENT until `resolve` brings it from the base, where it
    stands under the key that `_origins` names: the row may have another key by now.
    """

    def __init__(self, table: Table, key: tuple[int, ...]) -> None:
        self._name = f"{table.schema}.{table.name}"
        self._log_columns, self.key_of = LogColumnsByRelation(table), KeyOf(key)
        self._key = frozenset(key)
        self._rows: dict[ResultRow, Row | None] = {}
        self._origins: dict[ResultRow, ResultRow] = {}
        self._changed: dict[ResultRow, None] = {}
        self._emptied = False
        # Keys that changed since the overlay was frozen, None if it is not.
        self._since: set[ResultRow] | None = None
        # The whole base is hidden.
        self.hides_base = False
        self.version = 0

    def __len__(self) -> int:
        return len(self._rows)

    def hold(self, rows: Iterable[ResultRow]) -> None:
        """Take these for all rows of the table, in the place of a base."""
        self.hides_base = True
        self._rows = {self.key_of(row): row for row in rows}
        self.version += 1

    def change(self, event: RowChanged | Truncated) -> None:
        self.version += 1
        if isinstance(event, Truncated):
            self._empty()
            return
        shape = self._log_columns.of(event.relation)
        before = None if event.before is None else shape.row(event.before)
        after = None if event.after is None else shape.row(event.after)
        if event.operation != "insert" and not self._key <= shape.identity:
            raise Diverged(f"the log names rows of {self._name} by something else than its key")
        if event.operation == "insert":
            assert after is not None
            self._insert(self.key_of(after), known(after), None)
            return
        named = before if before is not None else after
        assert named is not None
        old_key = self.key_of(named)
        old, origin = self._remove(old_key)
        if after is not None:
            self._insert(self.key_of(after), *self._filled(after, old, origin, old_key))

    def unresolved(self) -> list[ResultRow]:
        """Keys of the base whose rows are needed."""
        return list(dict.fromkeys(self._origins.values()))

    def resolve(self, found: Sequence[tuple[ResultRow, ResultRow]]) -> None:
        """Take the base's rows for the keys that were unresolved."""
        by_key = dict(found)
        for key, origin in self._origins.items():
            row, old = self._rows[key], by_key.get(origin)
            assert row is not None
            if old is None:
                raise Diverged(f"a row of {self._name} that changed is not in the replica")
            self._rows[key] = _merged(row, old)
        self._origins.clear()

    def hidden(self) -> list[ResultRow]:
        """Keys that are hidden in the base."""
        return list(self._rows)

    def added(self) -> list[ResultRow]:
        """Rows in addition to the base."""
        return [known(row) for row in self._rows.values() if row is not None]

    def changes(self) -> Changes:
        rows = ((key, self._rows.get(key)) for key in self._changed)
        came = [(known(row), 1) for _, row in rows if row is not None]
        return Changes(list(self._changed), came, self._emptied)

    def clear_changes(self) -> None:
        self._changed, self._emptied = {}, False

    def freeze(self) -> None:
        """Record changes from now on separately, while the present rows are made the new base."""
        assert not self._origins
        self._since = set()

    def rebase(self) -> bool:
        """The rows at the time of `freeze` are the base now; false if a TRUNCATE came since then."""
        since, self._since = self._since, None
        if since is None:
            return False
        self._rows = {key: self._rows.get(key) for key in since}
        self.hides_base = False
        self.version += 1
        return True

    def _insert(self, key: ResultRow, row: Row, origin: ResultRow | None) -> None:
        if self._rows.get(key) is not None:
            raise Diverged(f"a row of {self._name} came that is there already")
        self._put(key, row)
        if origin is not None:
            self._origins[key] = origin

    def _remove(self, key: ResultRow) -> tuple[Row | None, ResultRow | None]:
        """The row that was there, None if only the base has it, and where its ABSENT values stand."""
        if key in self._rows or self.hides_base:
            old = self._rows.get(key)
            if old is None:
                raise Diverged(f"a row of {self._name} that changed is not in the replica")
        else:
            old = None
        self._put(key, None)
        return old, self._origins.pop(key, None)

    def _put(self, key: ResultRow, row: Row | None) -> None:
        if row is None and self.hides_base:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
        self._changed[key] = None
        if self._since is not None:
            self._since.add(key)

    def _filled(
        self, row: Row, old: Row | None, origin: ResultRow | None, old_key: ResultRow
    ) -> tuple[Row, ResultRow | None]:
        if ABSENT not in row:
            return row, None
        if old is None:
            return row, old_key
        row = _merged(row, old)
        return row, origin if ABSENT in row else None

    def _empty(self) -> None:
        self._rows, self._origins, self._changed = {}, {}, {}
        self._since = None
        self.hides_base = self._emptied = True


def _merged(row: Row, old: Row) -> Row:
    return tuple([was if value is ABSENT else value for value, was in zip(row, old, strict=True)])
