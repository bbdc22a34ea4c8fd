"""Constants: numbers as PostgreSQL types them, and the texts that take the type of what they stand beside."""

import re
from decimal import Decimal

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.core.dialect.numerics import decimal, fitting
from services.recompute.core.dialect.typed import (
    INT4,
    INT8,
    INTEGERS,
    INTERVAL,
    NUMERIC,
    STRINGS,
    TIMESTAMP,
    UNKNOWN,
    Span,
    Typed,
    Untranslatable,
)
from services.recompute.core.rendering import is_utc
from services.recompute.core.storage import decimal_digits, literal, parsed_date, parsed_moment, quoted, spark_type

_BOUNDS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
_BOOLEANS = {"t": "TRUE", "true": "TRUE", "f": "FALSE", "false": "FALSE"}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?(Z|[+-]\d\d(?::?\d\d)?)?")
_OFFSET = re.compile(r"(Z|:\d\d(?:\.\d+)?[+-]\d\d(?::?\d\d)?)$")
_SPAN_PART = re.compile(r"\s*([+-]?\d{1,7}(?:\.\d{1,6})?)\s*([a-z]+)\s*", re.IGNORECASE)
_CLOCK = re.compile(r"([+-]?)(\d{1,4}):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_UNITS: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("year", "years", "y", "yr", "yrs"), ("months", 12)),
    **dict.fromkeys(("month", "months", "mon", "mons"), ("months", 1)),
    **dict.fromkeys(("week", "weeks", "w"), ("days", 7)),
    **dict.fromkeys(("day", "days", "d"), ("days", 1)),
    **dict.fromkeys(("hour", "hours", "h", "hr", "hrs"), ("microseconds", 3_600_000_000)),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), ("microseconds", 60_000_000)),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), ("microseconds", 1_000_000)),
    **dict.fromkeys(("millisecond", "milliseconds", "ms"), ("microseconds", 1_000)),
    **dict.fromkeys(("microsecond", "microseconds", "us"), ("microseconds", 1)),
}


def number(text: str) -> Typed:
    """An unquoted number: int4, int8 or numeric, whichever PostgreSQL takes first."""
    if re.fullmatch(r"\d+", text) and int(text) < 2**63:
        value, type_ = int(text), INT4 if int(text) < 2**31 else INT8
        return Typed(sql=f"CAST({value} AS {spark_type(type_)})", type=type_, is_constant=True)
    if not re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?", text, re.IGNORECASE):
        raise Untranslatable(f"number {text}")
    return numeric(Decimal(text))


def numeric(value: Decimal) -> Typed:
    plain = f"{value:f}"
    scale = len(plain.partition(".")[2])
    digits = fitting(max(len(plain.lstrip("-").replace(".", "")), scale + 1), scale)
    return Typed(sql=f"CAST('{plain}' AS {decimal(digits)})", type=NUMERIC, digits=digits, is_constant=True)


def string(text: str) -> Typed:
    """A quoted literal, of which only its place will say the type."""
    return Typed(sql=quoted(text), type=UNKNOWN, text=text, is_constant=True)


def null(type_: PgType = UNKNOWN) -> Typed:
    return Typed(sql=f"CAST(NULL AS {spark_type(type_)})", type=type_, is_constant=True)


def read_as(typed: Typed, type_: PgType, settings: TextSettings | None = None) -> Typed:
    """A literal without a type, or NULL, read as PostgreSQL's input function of a type would."""
    if typed.text is None:
        digits = (1, 0) if type_.name == "numeric" and decimal_digits(type_) is None else None
        sql = f"CAST(NULL AS {decimal(digits)})" if digits else null(type_).sql
        return Typed(sql=sql, type=type_, digits=digits, is_constant=True)
    text = typed.text
    if type_.name == "interval":
        return Typed(sql="", type=INTERVAL, span=span(text), is_constant=True)
    if type_.name == "numeric" and type_.modifier == -1:
        if not re.fullmatch(r"-?\d+(\.\d+)?", text.strip()):
            raise Untranslatable(f"numeric '{text}'")
        return numeric(Decimal(text.strip()))
    is_local = type_.name == "timestamptz" and _OFFSET.search(text.strip()) is None
    if is_local and settings is not None and is_utc(settings.time_zone):
        return Typed(sql=_read(text, TIMESTAMP), type=type_, is_constant=True)
    return Typed(sql=_read(text, type_), type=type_, is_constant=True)


def _read(text: str, type_: PgType) -> str:
    bare = text.strip()
    if type_.kind == "e" or (type_.name in STRINGS and type_.name != "bpchar" and type_.modifier == -1):
        if type_.name == "name" and len(text.encode()) > 63:
            raise Untranslatable("a long name")
        return quoted(text)
    if type_.name == "bpchar" and type_.modifier == -1:
        return quoted(text)
    if type_.name in INTEGERS and re.fullmatch(r"-?\d{1,19}", bare):
        value = int(bare)
        if -_BOUNDS[type_.name] <= value < _BOUNDS[type_.name]:
            return f"CAST('{value}' AS {spark_type(type_)})"
    if type_.name == "bool" and bare.lower() in _BOOLEANS:
        return _BOOLEANS[bare.lower()]
    if type_.name == "uuid" and _UUID.fullmatch(bare):
        return quoted(bare.lower())
    if type_.name in ("float4", "float8") and bare.lower() in ("nan", "infinity", "-infinity"):
        return f"CAST('{bare}' AS {spark_type(type_)})"
    if type_.name in ("float4", "float8") and re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", bare):
        return literal(type_, bare.encode())
    if type_.name == "date" and _DAY.fullmatch(bare):
        return _dated(f"CAST({{}} AS {spark_type(type_)})", bare)
    if type_.name in ("timestamp", "timestamptz") and type_.modifier == -1:
        return f"CAST({moment(bare, type_)} AS BIGINT)"
    raise Untranslatable(f"{type_.name} '{text}'")


def _dated(form: str, text: str) -> str:
    try:
        return form.format(parsed_date(text))
    except ValueError as error:
        raise Untranslatable(f"date '{text}'") from error


def moment(text: str, type_: PgType) -> int:
    """Microseconds since 2000; a timestamptz must say its offset, since the zone of the session is not known here."""
    if _DAY.fullmatch(text):
        text += " 00:00:00"
    found = _MOMENT.fullmatch(text)
    if not found or (found[4] is None) != (type_.name == "timestamp"):
        raise Untranslatable(f"{type_.name} '{text}'")
    offset = (found[4] or "").replace("Z", "+00")
    if len(offset) == 5:
        offset = f"{offset[:3]}:{offset[3:]}"
    try:
        return parsed_moment(f"{found[1]} {found[2]}{found[3] or ':00'}{offset}")
    except ValueError as error:
        raise Untranslatable(f"{type_.name} '{text}'") from error


def span(text: str) -> Span:
    """An interval in the form `1 day 02:00:00`; others are left to PostgreSQL."""
    months, days, microseconds = 0, 0, 0
    rest = text.strip()
    if not rest:
        raise Untranslatable("interval ''")
    while rest:
        if clock := _CLOCK.fullmatch(rest):
            sign = -1 if clock[1] == "-" else 1
            seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + int(clock[4] or 0)
            microseconds += sign * (seconds * 1_000_000 + int((clock[5] or "0").ljust(6, "0")))
            break
        part = _SPAN_PART.match(rest)
        if not part or part[2].lower() not in _UNITS:
            raise Untranslatable(f"interval '{text}'")
        field, each = _UNITS[part[2].lower()]
        amount = Decimal(part[1]) * each
        if amount != int(amount):
            raise Untranslatable(f"interval '{text}'")
        if field == "months":
            months += int(amount)
        elif field == "days":
            days += int(amount)
        else:
            microseconds += int(amount)
        rest = rest[part.end() :]
    return Span(months, days, microseconds)
