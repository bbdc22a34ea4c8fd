"""Constants, out of the bytes that PostgreSQL holds them as."""

import math
from decimal import Decimal

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.sql.numerics import decimal, fitting
from services.recompute.core.sql.typed import NUMERIC, Span, Typed, Untranslatable
from services.recompute.core.sql.world import World
from services.recompute.core.storage import decimal_digits, quoted, spark_type
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.constants import Interval, Undecodable, value_of

_LARGEST_SPAN = 2**31 - 1
_OID_BYTES = 4


def constant(node: n.Const, world: World) -> Typed:
    type_ = world.type_of(node)
    if node.constisnull or node.constvalue is None:
        return null(type_)
    if type_.kind == "e":
        label = world.label(int.from_bytes(node.constvalue[:_OID_BYTES], "little"))
        return Typed(sql=quoted(label), type=type_, text=label, is_constant=True)
    try:
        # A domain's constant is one of the type below it.
        value = value_of(replace(node, consttype=type_.oid))
    except Undecodable as error:
        raise Untranslatable(f"constant of type {type_.name}") from error
    match value:
        case Interval():
            return Typed(sql="", type=type_, span=_span(value), is_constant=True)
        case Decimal():
            return replace(numeric(value), type=replace(NUMERIC, modifier=-1))
        case bool():
            return Typed(sql="TRUE" if value else "FALSE", type=type_, is_constant=True)
        case str():
            return Typed(sql=quoted(value), type=type_, text=value, is_constant=True)
        case float():
            return Typed(sql=f"CAST('{_float(value)}' AS {spark_type(type_)})", type=type_, is_constant=True)
        case int():
            sql = f"CAST('{value}' AS {spark_type(type_)})"
            return Typed(sql=sql, type=type_, text=str(value), is_constant=True)
    raise Untranslatable(f"constant of type {type_.name}")


def null(type_: PgType) -> Typed:
    if type_.name == "interval":
        raise Untranslatable("an interval that is NULL")
    if type_.name == "numeric" and decimal_digits(type_) is None:
        return Typed(sql="CAST(NULL AS DECIMAL(1,0))", type=type_, digits=(1, 0), is_constant=True)
    return Typed(sql=f"CAST(NULL AS {spark_type(type_)})", type=type_, is_constant=True)


def numeric(value: Decimal) -> Typed:
    if not value.is_finite():
        raise Untranslatable(f"numeric {value}")
    plain = f"{value:f}"
    scale = len(plain.partition(".")[2])
    digits = fitting(max(len(plain.lstrip("-").replace(".", "")), scale + 1), scale)
    return Typed(sql=f"CAST('{plain}' AS {decimal(digits)})", type=NUMERIC, digits=digits, is_constant=True)


def _float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _span(value: Interval) -> Span:
    if abs(value.months) >= _LARGEST_SPAN and abs(value.days) >= _LARGEST_SPAN:
        raise Untranslatable("an infinite interval")
    return Span(value.months, value.days, value.microseconds)
