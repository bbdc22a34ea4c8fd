"""Python values as PostgreSQL reads them: its text format, for $1 … $n."""

import math
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TypeAlias
from uuid import UUID

Scalar: TypeAlias = bool | int | float | Decimal | str | bytes | date | time | timedelta | UUID | None
Parameter: TypeAlias = Scalar | Sequence["Parameter"]


def to_text(value: Parameter) -> bytes | None:
    """The bytes of a parameter; None is NULL."""
    if value is None:
        return None
    text = _array(value) if isinstance(value, list | tuple) else _scalar(value)
    if "\0" in text:
        raise ValueError("PostgreSQL's texts cannot contain the character NUL: take it out, or pass bytes")
    return text.encode()


def _scalar(value: object) -> str:
    match value:
        case Enum():
            return _scalar(value.value)
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case Decimal():
            return _decimal(value)
        case str():
            return value
        case int() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case date():
            return _moment(value)
        case time():
            return value.isoformat()
        case timedelta():
            return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"
        case _:
            raise TypeError(
                f"a {type(value).__name__} cannot be a parameter: pass None, bool, int, float, Decimal, str, bytes, "
                "date, time, datetime, timedelta, UUID or a list of one of them; JSON as json.dumps(…)"
            )


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


def _decimal(value: Decimal) -> str:
    return str(value) if value.is_finite() else _float(float(value)) if not value.is_snan() else "NaN"


def _moment(value: date) -> str:
    # Python has no years before 1, and writes the others with four digits, which every DateStyle reads as ISO.
    return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()


def _array(values: Sequence[object]) -> str:
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return _array(value)
    return '"' + _scalar(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
