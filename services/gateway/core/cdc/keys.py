"""Comparing keys as PostgreSQL does, for the types for which its text tells (S9, S10)."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from msgspec import Struct

from services.gateway.core.cdc.types import Family

Comparable = Callable[[bytes], Any]


class KeyColumn(Struct, frozen=True, kw_only=True):
    """A column of a primary key: its type behind any domain, and whether its text is ordered by bytes."""

    name: str
    family: Family
    type_name: str
    is_ordered_by_bytes: bool = False
    # Under a collation that is not deterministic, texts that differ may be equal.
    is_equal_by_bytes: bool = True


def _moment(value: bytes) -> tuple[int, int, bytes]:
    """-infinity, years before Christ backwards, years, infinity."""
    if value == b"-infinity":
        return -2, 0, b""
    if value == b"infinity":
        return 2, 0, b""
    text = value.removesuffix(b" BC")
    year, _, rest = text.partition(b"-")
    return (-1, -int(year), rest) if len(text) < len(value) else (1, int(year), rest)


def _decimal(value: bytes) -> tuple[int, Decimal]:
    match value:
        case b"NaN":
            return 3, Decimal(0)
        case b"Infinity":
            return 2, Decimal(0)
        case b"-Infinity":
            return 0, Decimal(0)
    return 1, Decimal(value.decode())


def _float(value: bytes) -> tuple[int, float]:
    return (1, 0.0) if value == b"NaN" else (0, float(value))


def _as_is(value: bytes) -> bytes:
    return value


_ORDERS: dict[Family, Comparable] = {
    Family.BOOL: _as_is,
    Family.SIGNED: int,
    Family.UNSIGNED: int,
    Family.FLOAT: _float,
    Family.DECIMAL: _decimal,
    Family.BYTES: _as_is,
    Family.DATE: _moment,
    Family.TIME: _as_is,
    Family.MOMENT: _moment,
    Family.MOMENT_ZONED: _moment,
    Family.UUID: _as_is,
}


def equality_of(column: KeyColumn) -> Comparable | None:
    """What is equal exactly if PostgreSQL calls the values equal; None where text does not tell."""
    if column.family in _ORDERS:
        return _ORDERS[column.family]
    if not column.is_equal_by_bytes:
        return None
    if column.family is Family.TEXT:
        return _as_is
    return (lambda value: value.rstrip(b" ")) if column.family is Family.PADDED else None


def order_of(column: KeyColumn) -> Comparable | None:
    """What is ordered exactly as PostgreSQL orders the values; None where text does not tell."""
    if column.family in _ORDERS:
        return _ORDERS[column.family]
    return equality_of(column) if column.is_ordered_by_bytes else None
