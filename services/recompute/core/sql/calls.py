"""Functions by PostgreSQL's names: what each is in Spark, for the types for which both are proven equal."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from services.recompute.core.dialect import datetimes, numerics, texts
from services.recompute.core.dialect.casts import cast, unified
from services.recompute.core.dialect.forms import ordering_key, spark_type_of
from services.recompute.core.dialect.operators import calculated, compared
from services.recompute.core.dialect.typed import (
    DATE,
    FLOAT8,
    FLOATS,
    INT4,
    INTEGERS,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    Scope,
    Typed,
    Untranslatable,
    merged_flags,
)

Function: TypeAlias = Callable[[list[Typed], Scope], Typed]


def call(name: str, arguments: list[Typed], scope: Scope) -> Typed:
    known = _FUNCTIONS.get(name)
    if known is None or not known[0] <= len(arguments) <= known[1]:
        raise Untranslatable(f"function {name}")
    return known[2](arguments, scope)


def coalesced(parts: list[Typed], scope: Scope) -> Typed:
    parts = unified(parts, scope.settings)
    listed = ", ".join(part.sql for part in parts)
    return _of_parts(f"coalesce({listed})", parts, _first_scale(parts))


def chosen(conditions: list[Typed], values: list[Typed], scope: Scope) -> Typed:
    """CASE: one value more than conditions, the last for ELSE. PostgreSQL resolves the type with ELSE first."""
    otherwise, *rest = unified([values[-1], *values[:-1]], scope.settings)
    values = [*rest, otherwise]
    pairs = list(zip(conditions, values[:-1], strict=True))
    sql = _case([(condition.sql, value.sql) for condition, value in pairs], values[-1].sql)
    scale = None
    if any(value.printed_scale is not None for value in values):
        arms = [(condition.sql, numerics.scale_sql(value)) for condition, value in pairs]
        scale = _case(arms, numerics.scale_sql(values[-1]))
    made = _of_parts(sql, values, scale)
    return replace(made, **merged_flags(*conditions, *values))


def nulled(left: Typed, right: Typed, scope: Scope) -> Typed:
    """NULLIF: the left one, as the operand of `=` that it is."""
    equal = compared("=", left, right, scope)
    if left.type.name in ("unknown", "bpchar"):
        raise Untranslatable(f"nullif of {left.type.name}")
    kept = cast(left, TEXT) if left.type.name == "varchar" else left
    sql = f"CASE WHEN {equal.sql} THEN CAST(NULL AS {spark_type_of(kept)}) ELSE {kept.sql} END"
    return replace(kept, sql=sql, **merged_flags(left, right))


def extreme(name: str, parts: list[Typed], scope: Scope) -> Typed:
    """greatest() and least(), which pass over NULL in both."""
    parts = unified(parts, scope.settings)
    for part in parts:
        if part.printed_scale is not None or part.type.name == "bpchar":
            raise Untranslatable(f"{name} of {part.type.name}")
        ordering_key(part, scope)
    if len(parts) == 1:
        return parts[0]
    return _of_parts(f"{name}({', '.join(part.sql for part in parts)})", parts, None)


def _of_parts(sql: str, parts: list[Typed], scale: str | None) -> Typed:
    return replace(parts[0], sql=sql, printed_scale=scale, text=None, **merged_flags(*parts))


def _first_scale(parts: list[Typed]) -> str | None:
    if all(part.printed_scale is None for part in parts):
        return None
    arms = [(f"{part.sql} IS NOT NULL", numerics.scale_sql(part)) for part in parts[:-1]]
    return _case(arms, numerics.scale_sql(parts[-1]))


def _case(arms: list[tuple[str, str]], otherwise: str) -> str:
    return "(CASE " + "".join(f"WHEN {when} THEN {then} " for when, then in arms) + f"ELSE {otherwise} END)"


def _absolute(arguments: list[Typed], _scope: Scope) -> Typed:
    (x,) = arguments
    if x.type.name == "numeric":
        x = numerics.as_decimal(x)
    elif x.type.name not in INTEGERS and x.type.name not in FLOATS:
        raise Untranslatable(f"abs of {x.type.name}")
    return replace(x, sql=f"abs({x.sql})")


def _sign(arguments: list[Typed], scope: Scope) -> Typed:
    (x,) = arguments
    if x.type.name == "numeric":
        held = numerics.as_decimal(x)
        return Typed(sql=f"CAST(sign({held.sql}) AS DECIMAL(1,0))", type=NUMERIC, digits=(1, 0), **merged_flags(x))
    double = _double(x, scope)
    sql = f"CASE WHEN {double} IS NULL THEN NULL WHEN isnan({double}) OR {double} = 0 THEN 0.0D ELSE sign({double}) END"
    return Typed(sql=sql, type=FLOAT8, **merged_flags(x))


def _double(x: Typed, scope: Scope) -> str:
    """The argument of a function of which PostgreSQL takes the float8 form for integers."""
    return cast(x, FLOAT8, scope.settings).sql


def _rounding(name: str) -> Function:
    def rounded(arguments: list[Typed], scope: Scope) -> Typed:
        x = arguments[0]
        if len(arguments) == 2:
            places = _places(name, arguments[1])
            if x.type.name not in INTEGERS and x.type.name != "numeric":
                raise Untranslatable(f"{name} of {x.type.name}")
            return numerics.rounded(x, places, truncates=name == "trunc")
        if x.type.name == "numeric":
            return numerics.rounded(x, 0, truncates=name == "trunc")
        double = _double(x, scope)
        if name == "trunc":
            raise Untranslatable("trunc of a float")
        return Typed(sql=f"rint({double})", type=FLOAT8, **merged_flags(x))

    return rounded


def _places(name: str, typed: Typed) -> int:
    text = typed.sql.removeprefix("CAST(").removesuffix(" AS INT)").replace("(- CAST(", "-").replace(" AS INT))", "")
    try:
        places = int(text)
    except ValueError:
        raise Untranslatable(f"{name} to a number of places that is no constant") from None
    if not typed.is_constant or not -30 <= places <= 30:
        raise Untranslatable(f"{name} to {text} places")
    return places


def _whole(name: str) -> Function:
    """ceil and floor."""

    def whole(arguments: list[Typed], scope: Scope) -> Typed:
        (x,) = arguments
        if x.type.name == "numeric":
            held = numerics.as_decimal(x)
            assert held.digits
            digits = numerics.fitting(held.digits[0] - held.digits[1] + 1, 0)
            sql = f"CAST({name}({held.sql}) AS {numerics.decimal(digits)})"
            return Typed(sql=sql, type=NUMERIC, digits=digits, **merged_flags(x))
        if x.type.name not in INTEGERS:
            raise Untranslatable(f"{name} of {x.type.name}")
        return Typed(sql=_double(x, scope), type=FLOAT8, **merged_flags(x))

    return whole


def _date_trunc(arguments: list[Typed], scope: Scope) -> Typed:
    unit, x = arguments
    if unit.text is None:
        raise Untranslatable("date_trunc to a unit that is no constant")
    return datetimes.truncated(unit.text, x, scope.settings)


def _date_part(arguments: list[Typed], scope: Scope) -> Typed:
    name, x = arguments
    if name.text is None or name.text.lower() in ("epoch", "second"):
        raise Untranslatable("date_part of this field")
    return cast(datetimes.field(name.text, x, scope.settings), FLOAT8)


def _to_char(arguments: list[Typed], scope: Scope) -> Typed:
    x, pattern = arguments
    if pattern.text is None:
        raise Untranslatable("to_char with a pattern that is no constant")
    return datetimes.written(x, pattern.text, scope.settings)


def today(scope: Scope) -> Typed:
    return cast(scope.now(), DATE, scope.settings)


def local_now(scope: Scope) -> Typed:
    return cast(scope.now(), TIMESTAMP, scope.settings)


def _octets(arguments: list[Typed], _scope: Scope) -> Typed:
    x = texts.text_of(arguments[0])
    return Typed(sql=f"octet_length({x.sql})", type=INT4, **merged_flags(x))


def _replaced(arguments: list[Typed], _scope: Scope) -> Typed:
    return texts.called("replace", *(texts.text_of(one) for one in arguments))


def _split_part(arguments: list[Typed], _scope: Scope) -> Typed:
    return texts.called(
        "split_part", texts.text_of(arguments[0]), texts.text_of(arguments[1]), texts.int_of(arguments[2])
    )


def _trimming(where: str) -> Function:
    return lambda given, _scope: texts.trimmed(given[0], given[1] if len(given) > 1 else None, where)


def _padding(*, left: bool) -> Function:
    return lambda given, _scope: texts.padded(given[0], given[1], given[2] if len(given) > 2 else None, left=left)


_FUNCTIONS: dict[str, tuple[int, int, Function]] = {
    "coalesce": (1, 100, coalesced),
    "nullif": (2, 2, lambda given, scope: nulled(given[0], given[1], scope)),
    "greatest": (1, 100, lambda given, scope: extreme("greatest", given, scope)),
    "least": (1, 100, lambda given, scope: extreme("least", given, scope)),
    "abs": (1, 1, _absolute),
    "sign": (1, 1, _sign),
    "mod": (2, 2, lambda given, scope: calculated("%", given[0], given[1], scope)),
    "round": (1, 2, _rounding("round")),
    "trunc": (1, 2, _rounding("trunc")),
    "ceil": (1, 1, _whole("ceil")),
    "ceiling": (1, 1, _whole("ceil")),
    "floor": (1, 1, _whole("floor")),
    "date_trunc": (2, 2, _date_trunc),
    "to_char": (2, 2, _to_char),
    "date_part": (2, 2, _date_part),
    "now": (0, 0, lambda _given, scope: scope.now()),
    "transaction_timestamp": (0, 0, lambda _given, scope: scope.now()),
    "length": (1, 1, lambda given, _scope: texts.length(given[0])),
    "char_length": (1, 1, lambda given, _scope: texts.length(given[0])),
    "character_length": (1, 1, lambda given, _scope: texts.length(given[0])),
    "octet_length": (1, 1, _octets),
    "lower": (1, 1, lambda given, scope: texts.lowered(given[0], scope)),
    "upper": (1, 1, lambda given, scope: texts.lowered(given[0], scope, upper=True)),
    "concat": (1, 100, lambda given, _scope: texts.concatenated(given)),
    "concat_ws": (2, 100, lambda given, _scope: texts.concatenated_with(given[0], given[1:])),
    "strpos": (2, 2, lambda given, _scope: texts.position(given[0], given[1])),
    "starts_with": (2, 2, lambda given, _scope: texts.starts_with(given[0], given[1])),
    "substr": (2, 3, lambda given, _scope: texts.substring(*given)),
    "substring": (2, 3, lambda given, _scope: texts.substring(*given)),
    "left": (2, 2, lambda given, _scope: texts.edge(given[0], given[1], right=False)),
    "right": (2, 2, lambda given, _scope: texts.edge(given[0], given[1], right=True)),
    "lpad": (2, 3, _padding(left=True)),
    "rpad": (2, 3, _padding(left=False)),
    "btrim": (1, 2, _trimming("BOTH")),
    "ltrim": (1, 2, _trimming("LEADING")),
    "rtrim": (1, 2, _trimming("TRAILING")),
    "replace": (3, 3, _replaced),
    "split_part": (3, 3, _split_part),
    "repeat": (2, 2, lambda given, _scope: texts.called("repeat", texts.text_of(given[0]), texts.int_of(given[1]))),
    "reverse": (1, 1, lambda given, _scope: texts.called("reverse", texts.text_of(given[0]))),
    "md5": (1, 1, lambda given, _scope: texts.called("md5", texts.text_of(given[0]))),
    "translate": (3, 3, lambda given, _scope: texts.called("translate", *(texts.text_of(one) for one in given))),
}
