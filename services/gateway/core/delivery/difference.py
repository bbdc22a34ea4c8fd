"""How a result went from one state to another: rows that went, came, and changed under their key."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from proto.rows import ResultRow, decode_row, encoded_rows

# Rows as they are encoded, with signed weights, none of them zero.
Net: TypeAlias = dict[bytes, int]


class Pair(Struct, frozen=True):
    """A row that went and one that came with the same key: the new one, and which of its columns are other ones."""

    row: ResultRow
    encoded: bytes
    changed: tuple[int, ...]


class Change(Struct, frozen=True):
    """V34: in the order in which it is told."""

    gone: tuple[bytes, ...]
    pairs: tuple[Pair, ...]
    come: tuple[bytes, ...]
    key_positions: tuple[int, ...]


def net_of(blocks: Iterable[bytes]) -> Net:
    """What row blocks add up to, one after the other: what came and went again is not in it."""
    net: Net = {}
    for block in blocks:
        for row, weight in encoded_rows(block):
            net[row] = net.get(row, 0) + weight
    return {row: weight for row, weight in net.items() if weight}


def change_of(net: Mapping[bytes, int], key_positions: Sequence[int]) -> Change:
    """Pair what went and what came by the certain key; without one nothing is paired (errata 2.1, point 8)."""
    gone = [row for row, weight in net.items() for _ in range(-weight)]
    come = [row for row, weight in net.items() for _ in range(weight)]
    if not (key_positions and gone and come):
        return Change(tuple(gone), (), tuple(come), tuple(key_positions))
    went, came = _by_key(gone, key_positions), _by_key(come, key_positions)
    paired = [(went[key], new) for key, new in came.items() if key in went and len(went[key].row) == len(new.row)]
    old, new = {one.encoded for one, _ in paired}, {one.encoded for _, one in paired}
    return Change(
        tuple(row for row in gone if row not in old),
        tuple(_pair(before, after) for before, after in paired),
        tuple(row for row in come if row not in new),
        tuple(key_positions),
    )


class _Keyed(Struct, frozen=True):
    row: ResultRow
    encoded: bytes


def _by_key(rows: Iterable[bytes], positions: Sequence[int]) -> dict[ResultRow, _Keyed]:
    """Rows that are alone with their key, as with a certain key all are."""
    keyed = [_Keyed(decode_row(row), row) for row in rows]
    keys = [tuple(one.row[position] for position in positions) for one in keyed]
    many = Counter(keys)
    return {key: one for key, one in zip(keys, keyed, strict=True) if many[key] == 1}


def _pair(before: _Keyed, after: _Keyed) -> Pair:
    changed = tuple(at for at, value in enumerate(after.row) if value != before.row[at])
    return Pair(after.row, after.encoded, changed)
