"""The merged result: what a subscriber holds after the messages so far (V53)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tidewire.matching import Key, Unplaceable
from tidewire.messages import Data, PartialData, PartialRow, Row, Update


class Result:
    """A multiset of rows. A row keeps its place in the order when it is updated; what is inserted comes last."""

    def __init__(self, key: Sequence[int] | None = None) -> None:
        self._key = Key(key)
        self._rows: dict[int, Row] = {}
        self._slots: dict[Row, list[int]] = {}
        self._next_slot = 0

    def use_key(self, key: Sequence[int] | None) -> None:
        """From here on the rows are found by these columns."""
        self._key = Key(key)
        for slot, row in self._rows.items():
            self._key.put(slot, row)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def replace(self, rows: Iterable[Row]) -> None:
        """Hold these rows and no others."""
        self._rows, self._slots = {}, {}
        self._key.forget()
        self.insert(rows)

    def insert(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._put(self._next_slot, row)
            self._next_slot += 1

    def delete(self, rows: Sequence[Row]) -> None:
        """Take one of each away; if one is not there, none is taken."""
        wanted = Counter(rows)
        if any(len(self._slots.get(row, ())) < count for row, count in wanted.items()):
            raise Unplaceable("a row was deleted that is not held")
        for row in rows:
            self._take(self._slots[row][-1])

    def update(self, rows: Sequence[PartialRow]) -> list[tuple[Row, Row]]:
        """Replace the rows that these belong to, all at once, and return each with its new form."""
        slots = self._key.slots_of(rows, self._rows)
        pairs = [(self._rows[slot], row.over(self._rows[slot])) for slot, row in zip(slots, rows, strict=True)]
        for slot in slots:
            self._take(slot, keeping_place=True)
        for slot, (_, new) in zip(slots, pairs, strict=True):
            self._put(slot, new)
        return pairs

    def apply(self, message: Data | PartialData) -> None:
        """One message, where nobody wants to know what it did."""
        match message:
            case PartialData(rows=partial):
                self.update(partial)
            case Data(update=Update.FULL, rows=rows):
                self.replace(rows)
            case Data(update=Update.INSERT, rows=rows):
                self.insert(rows)
            case Data(update=Update.DELETE, rows=rows):
                self.delete(rows)
            case Data(rows=rows):
                self.update(list(map(whole, rows)))

    def copy(self) -> "Result":
        made = Result()
        made._key = self._key.copy()
        made._rows, made._next_slot = dict(self._rows), self._next_slot
        made._slots = {row: list(slots) for row, slots in self._slots.items()}
        return made

    def _put(self, slot: int, row: Row) -> None:
        self._rows[slot] = row
        self._slots.setdefault(row, []).append(slot)
        self._key.put(slot, row)

    def _take(self, slot: int, *, keeping_place: bool = False) -> None:
        row = self._rows[slot]
        if not keeping_place:
            del self._rows[slot]
        slots = self._slots[row]
        slots.remove(slot)
        if not slots:
            del self._slots[row]
        self._key.take(slot, row)


def whole(row: Row) -> PartialRow:
    """A whole new row as one of which every value is there."""
    return PartialRow(len(row), dict(enumerate(row)))


def difference(before: Iterable[Row], after: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """What came and what went, in the order of the sides."""
    old, new = Counter(before), Counter(after)
    return list((new - old).elements()), list((old - new).elements())
