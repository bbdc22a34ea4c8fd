"""Which changes a subscription gets (S8 to S13)."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from proto.pgoutput.messages import ABSENT, Relation, Row, Value
from proto.streams.changes import RowChanged
from services.gateway.core.cdc.keys import Comparable, equality_of, order_of
from services.gateway.core.cdc.subscription import OPS, KeyFilter, Wishes
from services.gateway.core.cdc.table import Table

# Positions of columns in a relation, and of the key's; they change only with the relation.
Places = Mapping[str, int]
Matches = Callable[[RowChanged, Places], bool]


class Rules(Struct, frozen=True):
    """The filters of a subscription, made ready for one table."""

    ops: frozenset[str] | None
    keys: Matches | None
    columns: tuple[str, ...]

    def match(self, change: RowChanged, places: Places) -> bool:
        """All filters must pass."""
        if self.ops is not None and change.operation not in self.ops:
            return False
        if self.keys is not None and not self.keys(change, places):
            return False
        return not self.columns or any(_differs(change, places, column) for column in self.columns)

    @property
    def is_open(self) -> bool:
        """Whether everything passes."""
        return self.ops is None and self.keys is None and not self.columns


def rules_of(table: Table, wishes: Wishes, keys: KeyFilter) -> Rules:
    return Rules(
        ops=None if len(wishes.ops) == len(OPS) else frozenset(wishes.ops),
        keys=_key_rule(table, keys),
        columns=wishes.columns,
    )


def _key_rule(table: Table, keys: KeyFilter) -> Matches | None:
    """A change of the key counts by the old key and by the new one: a row that leaves the filter is told."""
    rules: list[Callable[[tuple[bytes, ...]], bool]] = []
    columns = [column.name for column in table.key]
    if keys.exact is not None:
        rules.append(_exact(table, keys.exact))
    if keys.is_range:
        rules.append(_between(table, keys))
    if not rules:
        return None

    def matches(change: RowChanged, places: Places) -> bool:
        found = [key for row in (change.before, change.after) if (key := key_of(row, columns, places)) is not None]
        return any(all(rule(key) for rule in rules) for key in found)

    return matches


def tells_key(change: RowChanged, columns: list[str], places: Places) -> bool:
    """Whether the log has all keys of this change by these columns, so that a filter by key can be decided."""
    if not all(column in places for column in columns):
        return False
    return change.operation == "insert" or identified_by(change.relation, columns)


def identified_by(relation: Relation, columns: list[str]) -> bool:
    identity = {column.name for column in relation.columns if column.is_identity}
    return identity.issuperset(columns)


def _exact(table: Table, wanted: tuple[str, ...]) -> Callable[[tuple[bytes, ...]], bool]:
    compared = [equality_of(column) for column in table.key]
    pairs: list[tuple[Comparable, object]] = [
        (compare, compare(text.encode()))
        for compare, text in zip(compared, wanted, strict=False)
        if compare is not None
    ]
    if len(pairs) != len(table.key) or len(wanted) != len(table.key):
        return lambda key: False  # a query's filter that does not fit this table (S17): no row of it has this key
    return lambda key: all(compare(value) == target for (compare, target), value in zip(pairs, key, strict=True))


def _between(table: Table, keys: KeyFilter) -> Callable[[tuple[bytes, ...]], bool]:
    order = order_of(table.key[0]) if len(table.key) == 1 else None
    if order is None:
        return lambda key: False
    lower = None if keys.lower is None else order(keys.lower.encode())
    upper = None if keys.upper is None else order(keys.upper.encode())

    def within(key: tuple[bytes, ...]) -> bool:
        place = order(key[0])
        return (lower is None or place >= lower) and (upper is None or place <= upper)

    return within


def key_of(row: Row | None, columns: list[str], places: Places) -> tuple[bytes, ...] | None:
    """The row's key, if it is all there."""
    if row is None or not columns:
        return None
    found: list[bytes] = []
    for column in columns:
        place = places.get(column)
        value = ABSENT if place is None else row[place]
        if not isinstance(value, bytes):
            return None
        found.append(value)
    return tuple(found)


def _differs(change: RowChanged, places: Places, column: str) -> bool:
    place = places.get(column)
    if place is None:
        return False
    if change.before is None and change.operation == "update":
        return True  # the log has no old row: rather too many than too few
    before, after = _value(change.before, place), _value(change.after, place)
    if ABSENT in (before, after):
        return change.operation != "update" or before is not after
    return before != after


def _value(row: Row | None, place: int) -> Value:
    """Without an image there is no value (S12)."""
    return None if row is None else row[place]
