"""How a result went from one state to another: rows removed, added, and updated under their key."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from proto.rows import ResultRow, decode_row, encoded_rows

# Encoded rows with signed weights, none of them zero.
NetRows: TypeAlias = dict[bytes, int]


class UpdatedRow(Struct, frozen=True):
    """A row that replaced another one with the same key, and the positions of the columns that differ."""

    row: ResultRow
    encoded: bytes
    changed: tuple[int, ...]


class Change(Struct, frozen=True):
    """Rows are encoded by proto.rows; without a certain key (no `key_positions`) nothing is an update."""

    removed: tuple[bytes, ...]
    updated: tuple[UpdatedRow, ...]
    added: tuple[bytes, ...]
    key_positions: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.updated or self.added)


def net_of(blocks: Iterable[bytes]) -> NetRows:
    """The sum of row blocks: a row that came and went again is not in it."""
    net: NetRows = {}
    for block in blocks:
        for row, weight in encoded_rows(block):
            net[row] = net.get(row, 0) + weight
    return {row: weight for row, weight in net.items() if weight}


def change_of(net: Mapping[bytes, int], key_positions: Sequence[int]) -> Change:
    """Pair removed and added rows by the certain key; without one nothing is paired (errata 2.1, point 8)."""
    removed = [row for row, weight in net.items() for _ in range(-weight)]
    added = [row for row, weight in net.items() for _ in range(weight)]
    if not (key_positions and removed and added):
        return Change(tuple(removed), (), tuple(added), tuple(key_positions))
    old_by_key, new_by_key = _by_key(removed, key_positions), _by_key(added, key_positions)
    paired = [
        (old_by_key[key], new)
        for key, new in new_by_key.items()
        if key in old_by_key and len(old_by_key[key].row) == len(new.row)
    ]
    paired_old, paired_new = {old.encoded for old, _ in paired}, {new.encoded for _, new in paired}
    return Change(
        tuple(row for row in removed if row not in paired_old),
        tuple(_updated(old, new) for old, new in paired),
        tuple(row for row in added if row not in paired_new),
        tuple(key_positions),
    )


class _DecodedRow(Struct, frozen=True):
    row: ResultRow
    encoded: bytes


def _by_key(rows: Iterable[bytes], positions: Sequence[int]) -> dict[ResultRow, _DecodedRow]:
    """Rows that are alone with their key, as with a certain key all are."""
    decoded = [_DecodedRow(decode_row(row), row) for row in rows]
    keys = [tuple(one.row[position] for position in positions) for one in decoded]
    times = Counter(keys)
    return {key: one for key, one in zip(keys, decoded, strict=True) if times[key] == 1}


def _updated(old: _DecodedRow, new: _DecodedRow) -> UpdatedRow:
    changed = tuple(at for at, value in enumerate(new.row) if value != old.row[at])
    return UpdatedRow(new.row, new.encoded, changed)
