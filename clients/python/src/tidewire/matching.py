"""Which row an update belongs to.

The server sends updates and partial rows only where it knows a key: columns that are different in each row of the
result. The messages do not say which columns those are, so that a client has to find out. It may be told (`key=…`, or
the primary key that PostgreSQL names); if not, it draws conclusions, and only certain ones:

- An update and the row it replaces are equal in the key, so the key lies among the columns in which they are equal, and
  those must tell the held rows apart. If only one held row is so, it is the one.
- Each update that found its row narrows the columns that the key can have. Once none of those can be left out without
  two held rows being equal in the rest, they are the key.

Where two rows are possible there is nothing to conclude: `Unplaceable`, and the subscriber asks for the whole result.
"""

from collections.abc import Iterable, Mapping, Sequence

from tidewire.messages import PartialRow, Row

Rows = Mapping[int, Row]


class Unplaceable(Exception):
    """What came cannot be joined with what is held for certain: the whole result must be asked for."""


class Key:
    """What is known of the key, and the held rows by it."""

    def __init__(self, hint: Sequence[int] | None = None) -> None:
        self._hint = tuple(hint) if hint else None
        self._columns = self._hint
        self._proven = False
        # The key's columns are among these; None as long as nothing was concluded.
        self._among: frozenset[int] | None = None
        self._slots: dict[Row, int] = {}

    def forget(self) -> None:
        """The whole result comes anew, and the server may go by another key from here on."""
        self._columns, self._proven, self._among, self._slots = self._hint, False, None, {}

    def copy(self) -> "Key":
        made = Key(self._hint)
        made._columns, made._proven, made._among = self._columns, self._proven, self._among
        made._slots = dict(self._slots)
        return made

    def put(self, slot: int, row: Row) -> None:
        if self._columns is None:
            return
        if max(self._columns) >= len(row) or self._slots.setdefault(self._of(row), slot) != slot:
            self._drop()  # two rows are equal in it: it is none

    def take(self, slot: int, row: Row) -> None:
        if self._columns is not None and self._slots.get(self._of(row)) == slot:
            del self._slots[self._of(row)]

    def slots_of(self, updates: Sequence[PartialRow], rows: Rows) -> list[int]:
        """Where each update belongs: all of them, or `Unplaceable`."""
        if self._columns is not None:
            found = [self._known(update, rows) for update in updates]
            slots = [slot for slot in found if slot is not None]
            if len(set(slots)) == len(updates):
                return slots
            if self._proven:
                raise Unplaceable("an update came for a row that is not held")
            self._drop()
        return self._concluded(updates, rows)

    def _of(self, row: Row) -> Row:
        assert self._columns is not None
        return tuple(row[column] for column in self._columns)

    def _drop(self) -> None:
        self._columns, self._proven, self._slots = None, False, {}

    def _known(self, update: PartialRow, rows: Rows) -> int | None:
        assert self._columns is not None
        if not all(column in update.values for column in self._columns):
            return None
        slot = self._slots.get(tuple(update.values[column] for column in self._columns))
        if slot is None or self._proven or len(update.values) == update.columns:
            return slot
        # A partial row has the key and what changed. A value beside the key that did not change says that the hint is
        # not the key that the server goes by.
        beside = update.values.keys() - set(self._columns)
        return None if any(rows[slot][column] == update.values[column] for column in beside) else slot

    def _concluded(self, updates: Sequence[PartialRow], rows: Rows) -> list[int]:
        held = _Held(rows)
        found: dict[int, int] = {}
        while len(found) < len(updates):
            before = len(found)
            for number, update in enumerate(updates):
                if number in found:
                    continue
                possible = self._possible(update, held, set(found.values()))
                if not possible:
                    raise Unplaceable("an update came for a row that is not held")
                if len(possible) == 1:
                    ((slot, equal),) = possible.items()
                    found[number], self._among = slot, equal
                    if self._prove(held):
                        return self.slots_of(updates, rows)
            if len(found) == before:
                raise Unplaceable("an update fits several rows, and the key is not known: name it by key=…")
        return [found[number] for number in range(len(updates))]

    def _possible(self, update: PartialRow, held: "_Held", taken: set[int]) -> dict[int, frozenset[int]]:
        """The rows that this may replace, each with the columns that the key then is among."""
        columns = update.values.keys() if self._among is None else update.values.keys() & self._among
        found = {}
        for slot, row in held.rows.items():
            if slot not in taken and len(row) == update.columns:
                equal = frozenset(column for column in columns if row[column] == update.values[column])
                if held.apart_by(equal):
                    found[slot] = equal
                    if len(found) > 1:
                        break
        return found

    def _prove(self, held: "_Held") -> bool:
        """Whether the columns that the key is among are the key: none can be left out."""
        among = self._among
        if not among or any(held.apart_by(among - {column}) for column in among):
            return False
        self._columns, self._proven = tuple(sorted(among)), True
        self._slots = {self._of(row): slot for slot, row in held.rows.items()}
        return True


class _Held:
    """The held rows, and whether they are all different in some columns."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._answers: dict[frozenset[int], bool] = {}

    def apart_by(self, columns: Iterable[int]) -> bool:
        wanted = frozenset(columns)
        if wanted not in self._answers:
            self._answers[wanted] = len({tuple(row[c] for c in wanted) for row in self.rows.values()}) == len(self.rows)
        return self._answers[wanted]
