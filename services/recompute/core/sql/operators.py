"""Comparison and arithmetic, between values of the types that PostgreSQL's operator takes."""

from msgspec.structs import replace

from services.recompute.core.sql import numerics
from services.recompute.core.sql.casts import cast
from services.recompute.core.sql.datetimes import difference, shifted
from services.recompute.core.sql.forms import equality_key, ordering_key
from services.recompute.core.sql.typed import (
    BOOL,
    FLOAT8,
    FLOATS,
    INT2,
    INT4,
    INT8,
    INTEGERS,
    NUMERIC,
    STRINGS,
    Scope,
    Typed,
    Untranslatable,
    merged_flags,
)
from services.recompute.core.storage import spark_type

_WHOLE = ("int2", "int4", "int8")
_BY_NAME = {one.name: one for one in (INT2, INT4, INT8)}
_NUMBERS = (*sorted(INTEGERS), "numeric", *sorted(FLOATS))
_TIMES = ("date", "timestamp", "timestamptz")


def compared(operator: str, left: Typed, right: Typed, scope: Scope) -> Typed:
    """`=`, `<>`, `<` …, and `<=>` for IS NOT DISTINCT FROM."""
    sides = compared_sides(operator, left, right, scope)
    return Typed(sql=f"({sides[0]} {operator} {sides[1]})", type=BOOL, **merged_flags(left, right))


def compared_sides(operator: str, left: Typed, right: Typed, scope: Scope) -> tuple[str, str]:
    """Both sides in forms that Spark compares as PostgreSQL compares the values."""
    if left.elapsed or right.elapsed or left.span is not None or right.span is not None:
        return _elapsed(left, right)
    names = {left.type.name, right.type.name}
    left, right = _widened(left, right, scope)
    if left.type.name == "numeric":
        return _same_digits(left, right)
    if operator in ("=", "<>", "<=>"):
        return equality_key(left), equality_key(right)
    if "name" in names and len(names) > 1:
        raise Untranslatable("the order of names")
    return ordering_key(left, scope), ordering_key(right, scope)


def one_of(found: Typed, items: list[Typed], scope: Scope) -> Typed:
    """`found IN (items)`."""
    flags = merged_flags(found, *items)
    sides = [compared_sides("=", found, item, scope) for item in items]
    if len({left for left, _ in sides}) == 1 and found.type.name != "numeric":
        return Typed(sql=f"({sides[0][0]} IN ({', '.join(right for _, right in sides)}))", type=BOOL, **flags)
    return Typed(sql=f"({' OR '.join(f'({left} = {right})' for left, right in sides)})", type=BOOL, **flags)


def _elapsed(left: Typed, right: Typed) -> tuple[str, str]:
    if not all(one.elapsed or one.span is not None for one in (left, right)):
        raise Untranslatable("comparison with an interval")
    one, other = (f"{side.span.compared_us}L" if side.span is not None else side.sql for side in (left, right))
    return one, other


def _widened(left: Typed, right: Typed, scope: Scope) -> tuple[Typed, Typed]:
    """The operands of a comparison of two types: both as the one that holds the values of either."""
    names = {left.type.name, right.type.name}
    if left.type.oid == right.type.oid or names <= STRINGS - {"bpchar"}:
        return left, right
    for chain in (_WHOLE, tuple(sorted(FLOATS)), _TIMES):
        if names <= set(chain):
            wanted = max((left.type, right.type), key=lambda one: chain.index(one.name))
            return cast(left, wanted, scope.settings), cast(right, wanted, scope.settings)
    raise Untranslatable(f"comparison of {left.type.name} and {right.type.name}")


def _same_digits(left: Typed, right: Typed) -> tuple[str, str]:
    left, right = numerics.as_decimal(left), numerics.as_decimal(right)
    assert left.digits and right.digits
    digits = numerics.joint_digits(left.digits, right.digits)
    return numerics.rescaled(left, digits), numerics.rescaled(right, digits)


def calculated(operator: str, left: Typed, right: Typed, scope: Scope) -> Typed:
    """`+`, `-`, `*`, `/` and `%`."""
    if left.span is not None or right.span is not None:
        return _with_span(operator, left, right, scope)
    if left.elapsed or right.elapsed:
        raise Untranslatable("arithmetic on intervals")
    if {left.type.name, right.type.name} & set(_TIMES):
        return difference(operator, left, right)
    names = {left.type.name, right.type.name}
    if not names <= set(_NUMBERS):
        raise Untranslatable(f"{left.type.name} {operator} {right.type.name}")
    if names & FLOATS:
        return _floating(operator, left, right, scope)
    if "numeric" in names:
        return _decimal(operator, left, right)
    return _integer(operator, left, right)


def bitwise(operator: str, left: Typed, right: Typed) -> Typed:
    if not {left.type.name, right.type.name} <= INTEGERS:
        raise Untranslatable(f"{left.type.name} {operator} {right.type.name}")
    return _integer(operator, left, right)


def negated(typed: Typed) -> Typed:
    if typed.type.name == "numeric":
        held = numerics.as_decimal(typed)
        return replace(held, sql=f"(- {held.sql})", type=NUMERIC)
    if typed.type.name in INTEGERS or typed.type.name in FLOATS:
        return replace(typed, sql=f"(- {typed.sql})")
    if typed.span is not None:
        return replace(typed, span=typed.span.negated())
    raise Untranslatable(f"- {typed.type.name}")


def _with_span(operator: str, left: Typed, right: Typed, scope: Scope) -> Typed:
    if operator == "+" and left.span is not None:
        left, right = right, left
    if operator not in ("+", "-") or right.span is None or left.span is not None:
        raise Untranslatable("arithmetic on intervals")
    return shifted(left, right.span if operator == "+" else right.span.negated(), scope.settings)


def _integer(operator: str, left: Typed, right: Typed) -> Typed:
    # int2 with int2 stays int2; else the wider of both.
    type_ = max((_BY_NAME[left.type.name], _BY_NAME[right.type.name]), key=lambda one: one.name)
    kind = spark_type(type_)
    a, b = f"CAST({left.sql} AS {kind})", f"CAST({right.sql} AS {kind})"
    sql = f"CAST(({a} div {b}) AS {kind})" if operator == "/" else f"CAST(({a} {operator} {b}) AS {kind})"
    return Typed(sql=sql, type=type_, **merged_flags(left, right))


def _decimal(operator: str, left: Typed, right: Typed) -> Typed:
    if operator in ("+", "-"):
        return numerics.added(operator, left, right)
    if operator == "*":
        return numerics.multiplied(left, right)
    return numerics.divided(left, right) if operator == "/" else numerics.remainder(left, right)


def _floating(operator: str, left: Typed, right: Typed, scope: Scope) -> Typed:
    """PostgreSQL raises an overflow, or an underflow of a product or quotient, that Spark would let pass."""
    if operator == "%":
        raise Untranslatable("remainder of floats")
    if {left.type.name, right.type.name} == {"float4"}:
        a, b, type_ = left.sql, right.sql, left.type
    else:
        type_ = FLOAT8
        a, b = (cast(one, FLOAT8, scope.settings).sql for one in (left, right))
    kind = spark_type(type_)
    found = f"({a} {operator} {b})"
    infinite = f"abs({found}) = CAST('Infinity' AS {kind})"
    vanished = f" OR ({found} = 0 AND {a} <> 0)" if operator in ("*", "/") else ""
    if operator == "*":
        vanished = f" OR ({found} = 0 AND {a} <> 0 AND {b} <> 0)"
    checked = f"CASE WHEN {infinite}{vanished} THEN CAST(raise_error('value out of range') AS {kind}) ELSE {found} END"
    return Typed(sql=checked, type=type_, **merged_flags(left, right))
