"""Finds columns that are unique in the result of a join."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

# An input of the join by its name, and the place of a column in it.
Place: TypeAlias = tuple[str, int]


class Facts(Struct):
    """What is known of the inputs of a join, and of rows that its conditions let through."""

    # For each input, the sets of its columns that are different in each of its rows (NULL counts as a value).
    keys: dict[str, tuple[frozenset[int], ...]]
    # Columns that are equal in every row.
    equal: list[tuple[Place, Place]]
    # Columns that have one value in all rows.
    fixed: set[Place]
    # (these inputs, that input): a row of all these meets at most one row of that.
    single: list[tuple[frozenset[str], str]]


def tells_apart(facts: Facts, places: Iterable[Place]) -> bool:
    """Whether no two rows of the join are equal in all of `places`."""
    _, rows = _closure(facts, places)
    return rows >= facts.keys.keys()


def follows(facts: Facts, places: Iterable[Place], wanted: Iterable[Place]) -> bool:
    """Whether rows that are equal in `places` are equal in all that is wanted."""
    known, rows = _closure(facts, places)
    return all(place in known or place[0] in rows for place in wanted)


def _closure(facts: Facts, places: Iterable[Place]) -> tuple[set[Place], set[str]]:
    """The columns and the inputs' rows that are given with `places`."""
    known = set(places) | facts.fixed
    rows: set[str] = set()
    while True:
        before = len(known), len(rows)
        for left, right in facts.equal:
            if left in known or left[0] in rows:
                known.add(right)
            if right in known or right[0] in rows:
                known.add(left)
        for name, keys in facts.keys.items():
            if any(all((name, at) in known for at in key) for key in keys):
                rows.add(name)
        rows.update(right for left, right in facts.single if left <= rows)
        if (len(known), len(rows)) == before:
            return known, rows


def certain_key(facts: Facts, shown: Mapping[Place, int]) -> tuple[int, ...] | None:
    """The smallest key that we find among the shown columns, as places in the result; None if there is none."""
    shown = _with_equals(facts, shown)
    wanted = [frozenset((name, at) for at in key) for name, found in facts.keys.items() for key in found]
    # What has one value in all rows is not needed, unless nothing would be left.
    keys = [key - facts.fixed if key - facts.fixed else key for key in wanted]
    keys = [key for key in keys if key and all(place in shown for place in key)]
    for key in sorted(keys, key=len):
        if tells_apart(facts, key):
            return tuple(sorted({shown[place] for place in key}))
    together: frozenset[Place] = frozenset().union(*keys)
    if not tells_apart(facts, together):
        return () if tells_apart(facts, ()) else None
    for key in keys:
        rest = frozenset().union(*(other for other in keys if other != key))
        if tells_apart(facts, rest):
            together = rest
            keys = [other for other in keys if other != key]
    return tuple(sorted({shown[place] for place in together}))


def _with_equals(facts: Facts, shown: Mapping[Place, int]) -> dict[Place, int]:
    """A column that equals a shown one is shown as well."""
    every = dict(shown)
    while True:
        before = len(every)
        for left, right in facts.equal:
            for one, other in ((left, right), (right, left)):
                if one in every:
                    every.setdefault(other, every[one])
        if len(every) == before:
            return every
