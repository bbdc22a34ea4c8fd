"""How a value becomes one of another type."""

from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.core.rendering import is_utc
from services.recompute.core.sql import numerics
from services.recompute.core.sql.numerics import END
from services.recompute.core.sql.typed import (
    FLOATS,
    INTEGERS,
    NUMERIC,
    STRINGS,
    Typed,
    Untranslatable,
    bound,
    merged_flags,
)
from services.recompute.core.storage import (
    DATE_INFINITY,
    DATE_MINUS_INFINITY,
    DAY_US,
    MOMENT_INFINITY,
    MOMENT_MINUS_INFINITY,
    decimal_digits,
    spark_type,
)

_EPOCH_US = 946_684_800_000_000
_TIMES = ("date", "timestamp", "timestamptz")
# There is no year 0.
_DAY = "^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TRUE = "'t', 'true', 'y', 'yes', 'on', '1'"
_FALSE = "'f', 'false', 'n', 'no', 'off', '0'"


def cast(typed: Typed, wanted: PgType, settings: TextSettings | None = None) -> Typed:
    """The value as another type, as PostgreSQL's own function for that cast gives it."""
    if typed.span is not None or typed.elapsed:
        if wanted.name == "interval" and wanted.modifier == -1:
            return typed
        raise Untranslatable(f"cast of interval to {wanted.name}")
    source, target = typed.type, wanted.name
    if wanted.kind != "b" or source.kind not in ("b", "e"):
        if source.oid == wanted.oid:
            return typed
        raise Untranslatable(f"cast of {source.name} to {wanted.name}")
    if target == "numeric":
        return _to_numeric(typed, wanted)
    if typed.deferred:
        raise Untranslatable("a cast of a quotient")
    if target in STRINGS:
        return _to_string(typed, wanted)
    if source.oid == wanted.oid:
        return replace(typed, type=replace(wanted, modifier=_kept_modifier(wanted)))
    return Typed(sql=_converted(typed, wanted, settings), type=wanted, **merged_flags(typed))


def _kept_modifier(wanted: PgType) -> int:
    if wanted.name in ("timestamp", "timestamptz") and wanted.modifier not in (-1, 6):
        raise Untranslatable(f"{wanted.name}({wanted.modifier})")
    return wanted.modifier


def _converted(typed: Typed, wanted: PgType, settings: TextSettings | None = None) -> str:
    source, target, sql = typed.type.name, wanted.name, typed.sql
    _kept_modifier(wanted)
    if target in INTEGERS and source in INTEGERS:
        return f"CAST({sql} AS {spark_type(wanted)})"
    if target in INTEGERS and source == "numeric":
        return f"CAST(round({numerics.as_decimal(typed).sql}, 0) AS {spark_type(wanted)})"
    if target in INTEGERS and source in FLOATS:
        # Spark's own check lets 2^63 pass as the greatest bigint.
        checked = f"CASE WHEN abs({sql}) >= 9.2E18D THEN raise_error('integer out of range') ELSE rint({sql}) END"
        return f"CAST(CAST({checked} AS DOUBLE) AS {spark_type(wanted)})"
    if target in INTEGERS and source in ("text", "varchar"):
        return f"CAST({_matching(sql, '^[+-]?[0-9]+' + END, 'an integer')} AS {spark_type(wanted)})"
    if target == "int4" and source == "bool":
        return f"CAST({sql} AS INT)"
    if target == "float8" and (source in INTEGERS or source == "float4"):
        return f"CAST({sql} AS DOUBLE)"
    if target == "float8" and source == "numeric":
        return f"CAST({numerics.as_decimal(typed).sql} AS DOUBLE)"
    if target == "float4" and source in ("int2", "int4"):
        return f"CAST({sql} AS FLOAT)"
    if target == "bool" and source == "int4":
        return f"({sql} <> 0)"
    if target == "bool" and source in ("text", "varchar"):
        bare = f"lower({sql})"
        return (
            f"CASE WHEN {sql} IS NULL THEN CAST(NULL AS BOOLEAN) WHEN {bare} IN ({_TRUE}) THEN TRUE "
            f"WHEN {bare} IN ({_FALSE}) THEN FALSE ELSE CAST(raise_error('no boolean') AS BOOLEAN) END"
        )
    if target in _TIMES and source in _TIMES:
        return _between_times(sql, source, target, settings)
    if target in _TIMES and source in ("text", "varchar"):
        return _time_of_text(sql, target, settings)
    raise Untranslatable(f"cast of {source} to {target}")


def _between_times(sql: str, source: str, target: str, settings: TextSettings | None) -> str:
    if "timestamptz" in (source, target):
        require_utc(f"{source} as {target}", settings)
    if source == "date":
        return moment_of_date(sql)
    return date_of_moment(sql) if target == "date" else sql


def require_utc(what: str, settings: TextSettings | None) -> None:
    if settings is None or not is_utc(settings.time_zone):
        raise Untranslatable(f"{what} in a time zone that is not UTC")


def moment_of_date(sql: str) -> str:
    """Microseconds of days; Spark fails for dates after the last timestamp."""
    return bound(
        sql,
        lambda x: (
            f"CASE {x} WHEN {DATE_INFINITY} THEN {MOMENT_INFINITY}L WHEN {DATE_MINUS_INFINITY} "
            f"THEN {smallest_bigint()} ELSE CAST({x} AS BIGINT) * {DAY_US}L END"
        ),
    )


def date_of_moment(sql: str) -> str:
    return bound(
        sql,
        lambda x: (
            f"CASE {x} WHEN {MOMENT_INFINITY}L THEN {DATE_INFINITY} WHEN {smallest_bigint()} "
            f"THEN CAST({DATE_MINUS_INFINITY} AS INT) ELSE CAST(({x} - pmod({x}, {DAY_US}L)) div {DAY_US}L AS INT) END"
        ),
    )


def smallest_bigint() -> str:
    return f"CAST('{MOMENT_MINUS_INFINITY}' AS BIGINT)"


def _time_of_text(sql: str, target: str, settings: TextSettings | None = None) -> str:
    if target == "date":
        return f"datediff(CAST({_matching(sql, _DAY + END, 'a date')} AS DATE), DATE'2000-01-01')"
    if target == "timestamptz":
        require_utc("text as timestamptz", settings)
    form = _DAY + "( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?" + END
    return f"(unix_micros(CAST({_matching(sql, form, 'a timestamp')} AS TIMESTAMP)) - {_EPOCH_US}L)"


def _matching(sql: str, form: str, noun: str) -> str:
    """The text, if PostgreSQL is sure to read it as we do; else Spark fails and PostgreSQL is asked."""
    return f"CASE WHEN {sql} IS NULL OR {sql} RLIKE '{form}' THEN {sql} ELSE raise_error('not {noun}') END"


def _to_numeric(typed: Typed, wanted: PgType) -> Typed:
    digits = decimal_digits(wanted)
    if wanted.modifier != -1 and digits is None:
        raise Untranslatable("numeric with this precision")
    if typed.type.name in ("text", "varchar"):
        typed = numerics.as_decimal(Typed(sql=typed.sql, type=NUMERIC, **merged_flags(typed)))
    elif typed.type.name not in INTEGERS and typed.type.name != "numeric":
        raise Untranslatable(f"cast of {typed.type.name} to numeric")
    if wanted.modifier == -1:
        if typed.type.name == "numeric":
            return replace(typed, type=NUMERIC, digits=numerics.digits_of(typed))
        return numerics.as_decimal(typed)
    held = numerics.as_decimal(typed)
    assert digits is not None
    # ANSI: rounds half away from zero as PostgreSQL does, and fails where the number is too large.
    return Typed(sql=f"CAST({held.sql} AS {numerics.decimal(digits)})", type=wanted, **merged_flags(typed))


def _to_string(typed: Typed, wanted: PgType) -> Typed:
    source, sql = typed.type, typed.sql
    if wanted.name == "name":
        raise Untranslatable("cast to name")
    if source.name == "bpchar" and wanted.name != "bpchar":
        sql = f"rtrim({sql})"
    elif source.name == "numeric":
        sql = numerics.numeric_text(typed)
    elif source.name in INTEGERS or source.name == "bool":
        sql = f"CAST({sql} AS STRING)"
    elif source.name not in STRINGS and source.kind != "e" and source.name != "uuid":
        raise Untranslatable(f"cast of {source.name} to {wanted.name}")
    length = wanted.modifier - 4
    if wanted.modifier != -1:
        sql = f"left({sql}, {length})" if wanted.name == "varchar" else f"rpad({sql}, {length}, ' ')"
    return Typed(sql=sql, type=wanted, **merged_flags(typed))
