"""The value of a constant, out of the bytes that the server holds it as in memory."""

import struct
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from services.recompute.core.tree.nodes import Const


class Interval(Struct, frozen=True):
    """In the three parts that PostgreSQL keeps apart."""

    months: int
    days: int
    microseconds: int


# numeric NaN and ±Infinity come as Decimal too.
Scalar: TypeAlias = bool | int | float | Decimal | str | Interval

_BOOL, _INT8, _INT2, _INT4, _TEXT, _FLOAT4, _FLOAT8 = 16, 20, 21, 23, 25, 700, 701
_BPCHAR, _VARCHAR, _DATE, _TIMESTAMP, _TIMESTAMPTZ, _NUMERIC, _NAME = 1042, 1043, 1082, 1114, 1184, 1700, 19
_INTEGERS = frozenset((_INT2, _INT4, _INT8, _DATE, _TIMESTAMP, _TIMESTAMPTZ, 26))
_TEXTS = frozenset((_TEXT, _BPCHAR, _VARCHAR))
_UNKNOWN, _UUID, _INTERVAL = 705, 2950, 1186
_HEADER = 4
# numeric.c: the two highest bits say how the rest is to be read.
_FORM, _SHORT, _SPECIAL, _NEGATIVE = 0xC000, 0x8000, 0xC000, 0x4000
_SPECIALS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_BASE_DIGITS = 4


class Undecodable(ValueError):
    """A constant of a type, or in a form, that is not read here."""


def value_of(const: Const) -> Scalar | None:
    """None is NULL. Dates and moments are days and microseconds since 2000, as the server counts them."""
    held = const.constvalue
    if const.constisnull or held is None:
        return None
    try:
        if const.consttype == _BOOL:
            return held[0] != 0
        if const.consttype in _INTEGERS:
            return int.from_bytes(held, "little", signed=True)
        if const.consttype in (_FLOAT4, _FLOAT8):
            return float(struct.unpack("<f" if const.consttype == _FLOAT4 else "<d", held)[0])
        if const.consttype in _TEXTS:
            return _varlena(held).decode()
        if const.consttype in (_UNKNOWN, _NAME):
            return held.split(b"\0", 1)[0].decode()
        if const.consttype == _NUMERIC:
            return _numeric(_varlena(held))
        if const.consttype == _UUID:
            return str(UUID(bytes=held))
        if const.consttype == _INTERVAL:
            microseconds, days, months = struct.unpack("<qii", held)
            return Interval(months, days, microseconds)
    except (struct.error, IndexError, ValueError) as error:
        raise Undecodable(f"constant of type {const.consttype}") from error
    raise Undecodable(f"constant of type {const.consttype}")


def _varlena(held: bytes) -> bytes:
    """What follows the length of a plain value; constants are neither compressed nor stored elsewhere."""
    (header,) = struct.unpack_from("<I", held)
    if header & 3 or header >> 2 != len(held):
        raise Undecodable("a value that is compressed or stored elsewhere")
    return held[_HEADER:]


def _numeric(held: bytes) -> Decimal:
    """Digits to the base 10000 with a weight for the first; printed with `dscale` digits after the point."""
    (head,) = struct.unpack_from("<H", held)
    if head & _FORM == _SPECIAL:
        return Decimal(_SPECIALS[head & 0xF000])
    if head & _SHORT:
        is_negative, scale = bool(head & 0x2000), (head & 0x1F80) >> 7
        weight = (head & 0x3F) - (64 if head & 0x40 else 0)
        start = 2
    else:
        is_negative, scale = head & _FORM == _NEGATIVE, head & 0x3FFF
        (weight,) = struct.unpack_from("<h", held, 2)
        start = 4
    groups = struct.unpack(f"<{(len(held) - start) // 2}H", held[start:])
    whole = 0
    for group in groups:
        whole = whole * 10_000 + group
    exponent = _BASE_DIGITS * (weight + 1 - len(groups))
    # By text, since arithmetic would round to the context's precision.
    unscaled = whole * 10 ** max(exponent + scale, 0) // 10 ** max(-exponent - scale, 0)
    return Decimal((int(is_negative), tuple(int(digit) for digit in str(unscaled)), -scale))
