"""How PostgreSQL values are stored in Spark: types, conversions from the log's text, and canonical text back."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from services.recompute.core.catalog import Collation, PgType

# Days and microseconds count from 2000-01-01, as PostgreSQL's own do; the ends of the range stand for infinity.
EPOCH_DAY = date(2000, 1, 1).toordinal()
DAY_US = 86_400_000_000
DATE_INFINITY = 2**31 - 1
DATE_MINUS_INFINITY = -(2**31)
MOMENT_INFINITY = 2**63 - 1
MOMENT_MINUS_INFINITY = -(2**63)
_EPOCH_US = 946_684_800_000_000
_CYCLE_DAYS = 146_097  # of 400 years, after which the calendar repeats

_TYPED = {
    "int2": ("SMALLINT", pa.int16()),
    "int4": ("INT", pa.int32()),
    "int8": ("BIGINT", pa.int64()),
    "bool": ("BOOLEAN", pa.bool_()),
    "text": ("STRING", pa.string()),
    "varchar": ("STRING", pa.string()),
    "bpchar": ("STRING", pa.string()),
    "name": ("STRING", pa.string()),
    "uuid": ("STRING", pa.string()),
    "float4": ("FLOAT", pa.float32()),
    "float8": ("DOUBLE", pa.float64()),
    "date": ("INT", pa.int32()),
    "timestamp": ("BIGINT", pa.int64()),
    "timestamptz": ("BIGINT", pa.int64()),
}
# Types held as text of which equal values print equal text, and different ones different text.
_KEYS_AS_TEXT = frozenset(
    (
        *("bit", "varbit", "bytea", "char", "oid", "pg_lsn", "xid", "xid8", "cidr", "inet", "macaddr", "macaddr8"),
        *("time", "timetz", "daterange", "int4range", "int8range", "tsrange", "tstzrange", "int2vector", "oidvector"),
        *("_bool", "_bytea", "_char", "_date", "_inet", "_int2", "_int4", "_int8", "_oid", "_uuid"),
        *("_time", "_timestamp", "_timestamptz"),
    )
)
_COLLATED = frozenset(("text", "varchar", "name", "bpchar", "_text", "_varchar", "_name"))
_MOMENT = re.compile(
    r"(\d{4,6})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?( BC)?"
)
_DATE = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)( BC)?")


class Unstorable(Exception):
    """A value that the Spark type cannot represent: its table is left to PostgreSQL."""

    def __init__(self, type: PgType, detail: str) -> None:
        super().__init__(f"a value of type {type.name} cannot be held: {detail}")
        self.type, self.detail = type, detail


def decimal_digits(t: PgType) -> tuple[int, int] | None:
    """Precision and scale of a numeric that DECIMAL holds; None for every other type."""
    if t.name != "numeric" or t.kind != "b" or t.modifier < 4:
        return None
    precision = ((t.modifier - 4) >> 16) & 0xFFFF
    scale = (((t.modifier - 4) & 0x7FF) ^ 1024) - 1024
    return (precision, scale) if 0 <= scale <= precision <= 38 else None


def is_typed(t: PgType) -> bool:
    """Whether Spark knows the value; else it has PostgreSQL's text, which may pass through and be NULL or not."""
    if t.kind == "e":
        return True
    return t.kind == "b" and (t.name in _TYPED or decimal_digits(t) is not None)


def spark_type(t: PgType) -> str:
    if digits := decimal_digits(t):
        return f"DECIMAL({digits[0]},{digits[1]})"
    return _TYPED[t.name][0] if t.kind == "b" and t.name in _TYPED else "STRING"


def arrow_type(t: PgType) -> pa.DataType:
    if digits := decimal_digits(t):
        return pa.decimal128(*digits)
    return _TYPED[t.name][1] if t.kind == "b" and t.name in _TYPED else pa.string()


def is_key_fit(t: PgType) -> bool:
    """Whether equal text is equal value, and the other way round."""
    if t.kind == "e":
        return True
    if t.kind not in ("b", "r", "m"):
        return False
    if t.name in _COLLATED:
        return t.collation is not Collation.LOOSE and (t.name != "bpchar" or t.modifier > 4)
    if t.name == "numeric":
        return t.modifier >= 4
    return t.name in _KEYS_AS_TEXT or (t.name in _TYPED and t.name not in ("float4", "float8"))


def csv_type(t: PgType) -> pa.DataType:
    """What a CSV reader makes of the log's text; `arrow_values` makes the rest of it."""
    return pa.string() if t.kind == "b" and t.name in ("date", "timestamp", "timestamptz") else arrow_type(t)


def arrow_column(t: PgType, texts: Sequence[bytes | None]) -> pa.Array:
    """The values of a column from the log's text."""
    return arrow_values(t, pa.array(texts, pa.binary()).cast(pa.string()))


def arrow_values(t: PgType, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The values of a column of the log's text."""
    wanted = arrow_type(t)
    if pa.types.is_string(wanted):
        return column
    try:
        if t.name == "bool":
            return _compared(column, "t")
        if t.name == "date":
            return _dates(column)
        if t.name in ("timestamp", "timestamptz"):
            return _moments(column, t)
        return column.cast(wanted)
    except (pa.ArrowInvalid, ValueError, ArithmeticError) as error:
        raise Unstorable(t, str(error)) from error


def literal(t: PgType, text: bytes | None) -> str:
    """The Spark literal of a value in the log's text."""
    kind = spark_type(t)
    if text is None:
        return f"CAST(NULL AS {kind})"
    if kind == "STRING":
        return quoted(text.decode())
    value: Any = arrow_column(t, [text])[0].as_py()
    if kind in ("FLOAT", "DOUBLE"):
        return f"CAST({quoted(text.decode())} AS {kind})"
    if kind == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS {kind})"
    return f"CAST('{value}' AS {kind})"


def quoted(text: str) -> str:
    """A Spark string literal; nothing in it can be taken for a token of a plan or a variable of Spark's."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    for sign in "⟦⟧$":
        escaped = escaped.replace(sign, f"\\u{ord(sign):04X}")
    return f"'{escaped}'"


def canonical(t: PgType, sql: str) -> str:
    """The STRING that stands for a value outside Spark, from which core/rendering.py prints."""
    return sql if spark_type(t) == "STRING" else f"CAST({sql} AS STRING)"


def parsed_date(text: str) -> int:
    """PostgreSQL's ISO date as days since 2000-01-01."""
    if text in ("infinity", "-infinity"):
        return DATE_INFINITY if text == "infinity" else DATE_MINUS_INFINITY
    found = _DATE.fullmatch(text)
    if not found:
        raise ValueError(f"no date: {text!r}")
    year, month, day, era = found.groups()
    return _days(int(year), int(month), int(day), is_bc=era is not None)


def parsed_moment(text: str) -> int:
    """PostgreSQL's ISO timestamp, with or without an offset, as microseconds since 2000-01-01."""
    if text in ("infinity", "-infinity"):
        return MOMENT_INFINITY if text == "infinity" else MOMENT_MINUS_INFINITY
    found = _MOMENT.fullmatch(text)
    if not found:
        raise ValueError(f"no timestamp: {text!r}")
    year, month, day, hour, minute, second, fraction, sign, *offset, era = found.groups()
    days = _days(int(year), int(month), int(day), is_bc=era is not None)
    seconds = int(hour) * 3600 + int(minute) * 60 + int(second)
    if sign:
        hours, minutes, rest = (int(part or 0) for part in offset)
        seconds -= (hours * 3600 + minutes * 60 + rest) * (-1 if sign == "-" else 1)
    return days * DAY_US + seconds * 1_000_000 + int((fraction or "0").ljust(6, "0"))


def _days(year: int, month: int, day: int, *, is_bc: bool) -> int:
    """Days since 2000-01-01 in the proleptic Gregorian calendar; 1 BC is the year before 1."""
    astronomical = 1 - year if is_bc else year
    cycles, within = divmod(astronomical - 2000, 400)
    return date(2000 + within, month, day).toordinal() - EPOCH_DAY + cycles * _CYCLE_DAYS


def _compared(column: pa.Array, true: str) -> pa.Array:
    return pc.equal(column, true)


def _dates(column: pa.Array) -> pa.Array:
    try:
        return pc.subtract(column.cast(pa.date32()).cast(pa.int32()), pa.scalar(EPOCH_DAY - 719_163, pa.int32()))
    except pa.ArrowInvalid:
        return _one_by_one(column, parsed_date, pa.int32())


def _moments(column: pa.Array, t: PgType) -> pa.Array:
    try:
        bare = column
        if t.name == "timestamptz":
            if not pc.all(pc.ends_with(column, "+00")).as_py():
                return _one_by_one(column, parsed_moment, pa.int64())
            bare = pc.utf8_slice_codeunits(column, 0, -3)
        return pc.subtract(bare.cast(pa.timestamp("us")).cast(pa.int64()), pa.scalar(_EPOCH_US, pa.int64()))
    except pa.ArrowInvalid:
        return _one_by_one(column, parsed_moment, pa.int64())


def _one_by_one(column: pa.Array, parse: Callable[[str], int], wanted: pa.DataType) -> pa.Array:
    return pa.array([None if text is None else parse(text) for text in column.to_pylist()], wanted)
