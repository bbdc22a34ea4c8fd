"""A result as a set: which rows entered it and which left, as SQL's EXCEPT tells (P14)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from proto.rows import ResultRow

# Types of which PostgreSQL calls values equal that it prints in more than one way.
NUMERIC, FLOATS, PADDED = 1700, (700, 701), 1042

KeyOf = Callable[[ResultRow], ResultRow]


class SetChange(Struct, frozen=True):
    inserted: tuple[ResultRow, ...]
    deleted: tuple[ResultRow, ...]

    def __bool__(self) -> bool:
        return bool(self.inserted or self.deleted)


class RowSet:
    """Counts rows; one is in the set while its count is not 0. NULLs are equal to each other."""

    def __init__(self, type_oids: Sequence[int], rows: Mapping[ResultRow, int]) -> None:
        self._key_of = key_of(type_oids)
        self._counts: Counter[ResultRow] = Counter()
        # The row as it was told, by its key.
        self._told: dict[ResultRow, ResultRow] = {}
        self.change(rows.items())

    def __len__(self) -> int:
        return len(self._told)

    def change(self, net: Iterable[tuple[ResultRow, int]]) -> SetChange:
        """Add and take away; what crossed zero, in the order in which it came."""
        before: dict[ResultRow, bool] = {}
        latest: dict[ResultRow, ResultRow] = {}
        for row, weight in net:
            key = self._key_of(row)
            before.setdefault(key, key in self._told)
            self._counts[key] += weight
            if weight > 0:
                latest[key] = row
        inserted, deleted = [], []
        for key, was_in in before.items():
            is_in = self._counts[key] > 0
            if not self._counts[key]:
                del self._counts[key]
            if is_in and not was_in:
                self._told[key] = latest[key]
                inserted.append(latest[key])
            elif was_in and not is_in:
                deleted.append(self._told.pop(key))
        return SetChange(tuple(inserted), tuple(deleted))

    def replace(self, rows: Mapping[ResultRow, int]) -> SetChange:
        """The set becomes that of these rows."""
        after: Counter[ResultRow] = Counter()
        printed: dict[ResultRow, ResultRow] = {}
        for row, weight in rows.items():
            after[self._key_of(row)] += weight
            printed.setdefault(self._key_of(row), row)
        deleted = tuple(row for key, row in self._told.items() if key not in after)
        inserted = tuple(row for key, row in printed.items() if key not in self._told)
        self._told = {key: self._told.get(key, row) for key, row in printed.items()}
        self._counts = after
        return SetChange(inserted, deleted)


def key_of(type_oids: Sequence[int]) -> KeyOf:
    """What two rows that PostgreSQL calls equal have in common."""
    odd = {place: _CANONICAL[oid] for place, oid in enumerate(type_oids) if oid in _CANONICAL}
    if not odd:
        return lambda row: row

    def key(row: ResultRow) -> ResultRow:
        values = list(row)
        for place, canonical in odd.items():
            value = values[place]
            if value is not None:
                values[place] = canonical(value)
        return tuple(values)

    return key


def _numeric(text: bytes) -> bytes:
    return text.rstrip(b"0").rstrip(b".") if b"." in text else text


def _float(text: bytes) -> bytes:
    return b"0" if text == b"-0" else text


_CANONICAL: dict[int, Callable[[bytes], bytes]] = {
    NUMERIC: _numeric,
    **dict.fromkeys(FLOATS, _float),
    PADDED: lambda text: text.rstrip(b" "),
}
