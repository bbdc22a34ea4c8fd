"""Which row an update belongs to.

The server sends updates and partial rows only where it knows a key: columns that are different in each row of the
result. The messages do not say which columns those are, so that a client has to find out. It may be told (`key=…`, or
the primary key that PostgreSQL names); if not, it draws conclusions, and only certain ones:

- An update and the row it replaces are equal in the key, so the key lies among the columns in which they are equal, and
  those must tell the held rows apart. If only one held row is so, it is the one.
- Each update that found its row so narrows the columns that the key is among. A later one that is equal to a held row
  in all of them belongs to that row.

Where two rows are possible there is nothing to conclude: `Unplaceable`, and the subscriber asks for the whole result.
"""

from collections.abc import Collection, Mapping, Sequence

from tidewire.messages import PartialRow, Row

Rows = Mapping[int, Row]

# So many updates of a message are looked at for one that fits a single row.
TRIED = 20


class Unplaceable(Exception):
    """What came cannot be joined with what is held for certain: the whole result must be asked for."""


class Key:
    """What is known of the key, and the held rows by it."""

    def __init__(self, hint: Sequence[int] | None = None) -> None:
        self._hint = tuple(hint) if hint else None
        # The columns that the rows are found by, and whether they were concluded: then the key is among them.
        self._columns, self._concluded = self._hint, False
        self._slots: dict[Row, int] = {}

    def forget(self) -> None:
        """The whole result comes anew, and the server may go by another key from here on."""
        self._columns, self._concluded, self._slots = self._hint, False, {}

    def copy(self) -> "Key":
        made = Key(self._hint)
        made._columns, made._concluded, made._slots = self._columns, self._concluded, dict(self._slots)
        return made

    def put(self, slot: int, row: Row) -> None:
        if self._columns is None:
            return
        if max(self._columns, default=0) >= len(row) or self._slots.setdefault(self._of(row), slot) != slot:
            self._columns, self._concluded, self._slots = None, False, {}  # two rows are equal in it: it is none

    def take(self, slot: int, row: Row) -> None:
        if self._columns is not None and self._slots.get(self._of(row)) == slot:
            del self._slots[self._of(row)]

    def slots_of(self, updates: Sequence[PartialRow], rows: Rows) -> list[int]:
        """Where each update belongs: all of them, or `Unplaceable`."""
        while True:
            found = self._looked_up(updates, rows)
            if len(set(found.values())) == len(updates):
                return [found[number] for number in range(len(updates))]
            if not self._concluded:
                self._columns, found = None, {}
            missing = [update for number, update in enumerate(updates) if number not in found]
            self._narrow(self._conclude(missing, rows, set(found.values())), rows)

    def _of(self, row: Row) -> Row:
        assert self._columns is not None
        return tuple(row[column] for column in self._columns)

    def _looked_up(self, updates: Sequence[PartialRow], rows: Rows) -> dict[int, int]:
        """The updates whose row is found by the columns, by their number."""
        if self._columns is None:
            return {}
        if self._concluded:
            # The key is in every partial row, so that what one of them lacks does not belong to it.
            there = frozenset(self._columns).intersection(*(update.values.keys() for update in updates))
            if len(there) < len(self._columns):
                self._narrow(there, rows)
        found = {}
        for number, update in enumerate(updates):
            slot = self._slot_of(update, rows)
            if slot is not None:
                found[number] = slot
        return found

    def _slot_of(self, update: PartialRow, rows: Rows) -> int | None:
        assert self._columns is not None
        if any(column not in update.values for column in self._columns):
            return None
        slot = self._slots.get(tuple(update.values[column] for column in self._columns))
        if slot is None or self._concluded or len(update.values) == update.columns:
            return slot
        # A partial row has the key and what changed. A value beside the hint that did not change says that the hint is
        # not the key that the server goes by.
        beside = update.values.keys() - set(self._columns)
        return None if any(rows[slot][column] == update.values[column] for column in beside) else slot

    def _conclude(self, updates: Sequence[PartialRow], rows: Rows, taken: Collection[int]) -> frozenset[int]:
        """The columns that the key is among, from an update that fits one row only."""
        held = _Held(rows)
        for update in updates[:TRIED]:
            columns = update.values.keys() & (update.values.keys() if self._columns is None else set(self._columns))
            fits: list[frozenset[int]] = []
            for slot, row in rows.items():
                if slot not in taken and len(row) == update.columns:
                    equal = frozenset(column for column in columns if row[column] == update.values[column])
                    if held.apart_by(equal):
                        fits.append(equal)
                        if len(fits) > 1:
                            break
            if not fits:
                raise Unplaceable("an update came for a row that is not held")
            if len(fits) == 1:
                return fits[0]
        raise Unplaceable("an update fits several rows, and the key is not known: name it by key=…")

    def _narrow(self, columns: frozenset[int], rows: Rows) -> None:
        self._columns, self._concluded = tuple(sorted(columns)), True
        self._slots = {self._of(row): slot for slot, row in rows.items()}
        if len(self._slots) < len(rows):
            raise Unplaceable("two rows are equal in what must be the key")


class _Held:
    """Whether the held rows are all different in some columns."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._answers: dict[frozenset[int], bool] = {}

    def apart_by(self, columns: frozenset[int]) -> bool:
        if columns not in self._answers:
            seen = {tuple(row[column] for column in columns) for row in self._rows.values()}
            self._answers[columns] = len(seen) == len(self._rows)
        return self._answers[columns]
