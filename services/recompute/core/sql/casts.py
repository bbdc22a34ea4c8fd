"""Which type PostgreSQL gives where several meet, and how a value becomes one of another type."""

from collections.abc import Sequence

from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.dialect import numerics
from services.recompute.core.dialect.literals import read_as
from services.recompute.core.dialect.typed import (
    FLOATS,
    INTEGERS,
    NUMERIC,
    STRINGS,
    TEXT,
    Typed,
    Untranslatable,
    bound,
    merged_flags,
)
from services.recompute.core.rendering import is_utc
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
_WIDENING = ("int2", "int4", "int8", "numeric", "float4", "float8")
_TIMES = ("date", "timestamp", "timestamptz")
_PREFERRED = frozenset(("bool", "float8", "text", "timestamptz"))
_TRUE = "'t', 'true', 'y', 'yes', 'on', '1'"
_FALSE = "'f', 'false', 'n', 'no', 'off', '0'"


def common_type(types: Sequence[PgType]) -> PgType:
    """The type of CASE, COALESCE, UNION, VALUES: select_common_type and select_common_typmod of parse_coerce.c."""
    known = [one for one in types if one.name != "unknown"]
    if not known:
        return TEXT
    chosen = known[0]
    for other in known[1:]:
        if other.oid == chosen.oid:
            continue
        if _category(other) != _category(chosen):
            raise Untranslatable(f"{chosen.name} beside {other.name}")
        if chosen.name not in _PREFERRED and _is_implicit(chosen, other) and not _is_implicit(other, chosen):
            chosen = other
    modifiers = {one.modifier if one.oid == chosen.oid else -1 for one in types}
    modifier = modifiers.pop() if len(modifiers) == 1 else -1
    return replace(chosen, modifier=modifier, collation=joint_collation(types))


def joint_collation(types: Sequence[PgType]) -> Collation:
    """NONE stands for the database's own, which yields to a column's; of two different ones no order is known."""
    found = {one.collation for one in types if one.collation is not Collation.NONE}
    if len(found) > 1:
        return Collation.LOOSE if Collation.LOOSE in found else Collation.LANGUAGE
    return found.pop() if found else Collation.NONE


def unified(parts: Sequence[Typed], settings: TextSettings | None = None) -> list[Typed]:
    """The parts as one type, held the same way in Spark."""
    wanted = common_type([part.type for part in parts])
    together = [coerced(part, wanted, settings) for part in parts]
    if wanted.name != "numeric" or decimal_digits(wanted) is not None:
        return together
    if any(part.deferred or numerics.digits_of(part) is None for part in together):
        return [_as_text(part) for part in together]
    held = [numerics.as_decimal(part) for part in together]
    digits = numerics.joint_digits(*(part.digits for part in held if part.digits))
    is_static = len({numerics.scale_sql(part) for part in held if not _is_null(part)}) <= 1
    is_static = is_static and all(part.printed_scale is None for part in held)
    return [
        replace(
            part,
            sql=numerics.rescaled(part, digits),
            type=wanted,
            digits=digits,
            printed_scale=None if is_static else numerics.scale_sql(part),
        )
        for part in held
    ]


def coerced(typed: Typed, wanted: PgType, settings: TextSettings | None = None) -> Typed:
    """A value as PostgreSQL takes it without being asked to: literals read, numbers widened, dates as moments."""
    if typed.type.name == "unknown":
        return replace(read_as(typed, replace(wanted, modifier=-1), settings), type=wanted)
    if typed.type.oid == wanted.oid:
        digits = typed.digits if typed.deferred else numerics.digits_of(typed)
        kept = None if decimal_digits(wanted) else digits
        return replace(typed, type=replace(wanted, collation=typed.type.collation), digits=kept)
    if not _is_implicit(typed.type, wanted):
        raise Untranslatable(f"{typed.type.name} as {wanted.name}")
    return cast(typed, replace(wanted, modifier=-1), settings)


def cast(typed: Typed, wanted: PgType, settings: TextSettings | None = None) -> Typed:
    """An explicit cast."""
    if typed.type.name == "unknown":
        typed = read_as(typed, replace(wanted, modifier=-1), settings)
        if typed.type.name == "name":
            return typed
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
    collation = Collation.NONE
    if source.oid == wanted.oid:
        return replace(typed, type=replace(wanted, modifier=_kept_modifier(wanted)))
    sql = _converted(typed, wanted, settings)
    return Typed(sql=sql, type=replace(wanted, collation=collation), **merged_flags(typed))


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
        return f"CAST({_matching(sql, '^[+-]?[0-9]+$', 'an integer')} AS {spark_type(wanted)})"
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
        return f"datediff(CAST({_matching(sql, '^[0-9]{4}-[0-9]{2}-[0-9]{2}$', 'a date')} AS DATE), DATE'2000-01-01')"
    if target == "timestamptz":
        require_utc("text as timestamptz", settings)
    form = "^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?$"
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
    collation = source.collation if source.name in STRINGS else Collation.NONE
    return Typed(sql=sql, type=replace(wanted, collation=collation), **merged_flags(typed))


def _as_text(typed: Typed) -> Typed:
    """A numeric that is only printed from here on."""
    return Typed(sql=numerics.numeric_text(typed), type=NUMERIC, deferred=True, **merged_flags(typed))


def _is_null(typed: Typed) -> bool:
    return typed.is_constant and typed.sql.startswith("CAST(NULL AS ")


def _category(t: PgType) -> str:
    if t.name in _WIDENING:
        return "N"
    if t.name in STRINGS:
        return "S"
    return "D" if t.name in _TIMES else f"{t.kind}{t.oid}"


def _is_implicit(source: PgType, target: PgType) -> bool:
    for chain in (_WIDENING, _TIMES):
        if source.name in chain and target.name in chain:
            return chain.index(source.name) < chain.index(target.name)
    if source.name in STRINGS and target.name in STRINGS:
        return target.name != "name"
    return source.oid == target.oid
