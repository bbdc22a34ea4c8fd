"""The aggregate functions."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.certainty import tells_apart
from services.recompute.core.dialect.aggregates_lists import array_text, listed, string_type
from services.recompute.core.dialect.forms import equality_key, is_one_text, ordering_key
from services.recompute.core.dialect.numerics import NARROW, as_decimal, digits_of, numeric_text, scale_sql
from services.recompute.core.dialect.ordering import check_distinct, sort_key
from services.recompute.core.dialect.scope import DIALECT, Block, is_aggregate, place_of
from services.recompute.core.dialect.typed import (
    BOOL,
    FLOAT8,
    FLOATS,
    INT8,
    NUMERIC,
    STRINGS,
    TEXT,
    Typed,
    Untranslatable,
)  # fmt: skip

# Digits that a double gives back as they were.
_EXACT_IN_DOUBLE = 15


class Call(Struct, frozen=True):
    """An aggregate in Spark: the calls that it needs, and the value made of what they give."""

    calls: tuple[str, ...]
    value: Callable[[Sequence[str]], Typed]
    # What a call gives where there are no rows, if it is not NULL.
    empty: str | None = None


def call_of(node: exp.Expr, block: Block, *, windowed: bool = False) -> Call:
    """An aggregate call over the block's rows, with its FILTER."""
    if isinstance(node, exp.Filter):
        if windowed:
            raise Untranslatable("FILTER of a window")
        inside = call_of(node.this, block)
        condition = _plain(node.expression.this, block).sql
        calls = tuple(f"{call} FILTER (WHERE {condition})" for call in inside.calls)
        return Call(calls, inside.value, inside.empty)
    if isinstance(node, exp.WithinGroup):
        raise Untranslatable(f"aggregate {node.this.sql(dialect=DIALECT)}")
    if isinstance(node, exp.Count):
        return _count(node, block, windowed=windowed)
    if isinstance(node, exp.GroupConcat | exp.ArrayAgg) and not windowed:
        return _list(node, block)
    distinct, argument = _argument(node)
    typed = _plain(argument, block, windowed=windowed)
    if typed.deferred:
        raise Untranslatable("aggregate of a quotient")
    match node:
        case exp.Sum():
            return _sum(typed, distinct)
        case exp.Avg():
            return _avg(typed, distinct)
        case exp.Min() | exp.Max():
            return _extreme("min" if isinstance(node, exp.Min) else "max", typed, block)
        case exp.LogicalAnd() | exp.LogicalOr() | exp.Anonymous():
            if typed.type != BOOL:
                raise Untranslatable("bool_and of another type")
            name = "bool_or" if isinstance(node, exp.LogicalOr) else "bool_and"
            return Call((f"{name}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=BOOL))
    raise Untranslatable(f"aggregate {node.sql(dialect=DIALECT)}")


def _argument(node: exp.Expr) -> tuple[str, exp.Expr]:
    argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or argument.args.get("on"):
            raise Untranslatable("DISTINCT over several values")
        return "DISTINCT ", argument.expressions[0]
    if isinstance(argument, exp.Order):
        raise Untranslatable("ORDER BY in an aggregate")
    return "", argument


def _plain(node: exp.Expr, block: Block, *, windowed: bool = False) -> Typed:
    """An aggregate's argument; one over outer columns alone would be an aggregate of that outer query."""
    columns = [column for column in node.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    if node.find(exp.Query):
        raise Untranslatable("subquery in an aggregate")
    if windowed:
        return block.translate(node)
    if columns and all(place_of(column) is None and block.lookup(column) is None for column in columns):
        raise Untranslatable("aggregate of an outer query")
    if any(is_aggregate(inner) for inner in node.walk()):
        raise Untranslatable("aggregate in an aggregate")
    typed = block.translate(node)
    if typed.text is not None:
        raise Untranslatable("aggregate of a literal")
    return typed


def _count(node: exp.Count, block: Block, *, windowed: bool) -> Call:
    if node.expressions:
        raise Untranslatable("count of several values")
    if node.this is None or isinstance(node.this, exp.Star):
        call = "count(1)"
    else:
        distinct, argument = _argument(node)
        typed = _plain(argument, block, windowed=windowed)
        call = f"count({distinct}{equality_key(typed) if distinct else typed.sql})"
    return Call((call,), lambda sql: Typed(sql=sql[0], type=INT8), empty="0L")


def _sum(typed: Typed, distinct: str) -> Call:
    call = f"sum({distinct}{typed.sql})"
    match typed.type.name:
        case "int2" | "int4":
            return Call((call,), lambda sql: Typed(sql=sql[0], type=INT8))
        case "int8":
            # More than a bigint holds makes Spark fail; PostgreSQL then has the answer.
            return Call(
                (call,), lambda sql: Typed(sql=f"CAST({sql[0]} AS DECIMAL(19,0))", type=NUMERIC, digits=(19, 0))
            )
        case "numeric":
            return _sum_of_numeric(typed, distinct)
        case "float8":
            return Call((call,), lambda sql: _finite(sql[0]))
    raise Untranslatable(f"sum of {typed.type.name}")


def _sum_of_numeric(typed: Typed, distinct: str) -> Call:
    """PostgreSQL prints a sum with the greatest scale that was added."""
    held = as_decimal(typed, NARROW)
    assert held.digits is not None
    precision, scale = held.digits
    if precision <= _EXACT_IN_DOUBLE and held.printed_scale is None:
        return _sum_of_units(held.sql, scale, distinct)
    digits = (min(38, precision + 10), scale)
    call = f"sum({distinct}{held.sql})"
    if held.printed_scale is None:
        return Call((call,), lambda sql: Typed(sql=sql[0], type=NUMERIC, digits=digits))
    return Call(
        (call, f"max({scale_sql(held)})"),
        lambda sql: Typed(sql=sql[0], type=NUMERIC, digits=digits, printed_scale=sql[1]),
    )


def _sum_of_units(sql: str, scale: int, distinct: str) -> Call:
    """A sum counted in units of the last digit, as BIGINT: sums of wide DECIMALs are objects, and far slower.

    A double keeps 15 digits: the units come out of it whole. More of them than a BIGINT holds makes Spark fail.
    """
    units = f"CAST({sql} AS BIGINT)" if scale == 0 else f"CAST(rint(CAST({sql} AS DOUBLE) * {10**scale}D) AS BIGINT)"
    unit = f"CAST('{10**-scale:.{scale}f}' AS DECIMAL({scale + 1},{scale}))"

    def value(found: Sequence[str]) -> Typed:
        whole = f"CAST({found[0]} AS DECIMAL(19,0))"
        wide = whole if scale == 0 else f"CAST({whole} * {unit} AS DECIMAL(19,{scale}))"
        return Typed(sql=wide, type=NUMERIC, digits=(19, scale))

    return Call((f"sum({distinct}{units})",), value)


def _finite(sql: str) -> Typed:
    """A float sum. What Spark calls infinity is an error in PostgreSQL, or one of its inputs: it is asked."""
    checked = f"CASE WHEN abs({sql}) = double('Infinity') THEN raise_error('infinite sum') ELSE {sql} END"
    return Typed(sql=checked, type=FLOAT8, unstable=True)


def _avg(typed: Typed, distinct: str) -> Call:
    count = f"count({distinct}{typed.sql})"
    total = _sum(typed, distinct)
    if typed.type.name == "float8":
        return Call(
            (*total.calls, count),
            lambda sql: replace(_finite(sql[0]), sql=f"({_finite(sql[0]).sql} / nullif({sql[-1]}, 0))"),
        )
    # PostgreSQL divides sum by count and decides the scale by their digits: rendering does that.
    return Call(
        (*total.calls, count),
        lambda sql: Typed(
            sql=f"concat({numeric_text(_as_numeric(total.value(sql)))}, ' ', CAST({sql[-1]} AS STRING), ' /')",
            type=NUMERIC,
            deferred=True,
        ),
    )


def _as_numeric(total: Typed) -> Typed:
    return total if total.type.name == "numeric" else Typed(sql=total.sql, type=NUMERIC, digits=(19, 0))


def _extreme(name: str, typed: Typed, block: Block) -> Call:
    if typed.type.name == "bpchar" or typed.type.name == "bool":
        raise Untranslatable(f"{name} of {typed.type.name}")
    ordering_key(typed, block)
    if not is_one_text(typed) and typed.type.name not in FLOATS:
        raise Untranslatable(f"{name} of {typed.type.name}")
    type = typed.type
    result = replace(type, modifier=-1)
    if type.name in STRINGS:
        result = replace(TEXT, collation=type.collation)
    digits = digits_of(typed) if type.name == "numeric" else None
    return Call((f"{name}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=result, digits=digits))


def _list(node: exp.GroupConcat | exp.ArrayAgg, block: Block) -> Call:
    """string_agg and array_agg: texts in an order, which is a certain one only if no two different texts tie."""
    argument, order, is_distinct = node.this, [], False
    if isinstance(argument, exp.Order):
        order, argument = list(argument.expressions), argument.this
    if isinstance(argument, exp.Distinct):
        is_distinct, argument = True, argument.expressions[0]
    typed = _plain(argument, block)
    keys = [sort_key(ordered, _plain(ordered.this, block), block) for ordered in order]
    places = {place_of(block.resolved(ordered.this)) for ordered in order} | block.group_places
    is_certain = any(key.sql == typed.sql for key in keys) or tells_apart(
        block.facts, [place for place in places if place is not None]
    )
    if isinstance(node, exp.ArrayAgg):
        if is_distinct:
            raise Untranslatable("array_agg(DISTINCT …)")
        text, type = array_text(typed)
        separator = ","
    else:
        separator = _separator(node.args.get("separator"), block)
        text, type = typed.sql, string_type(typed, block)
        if is_distinct:
            check_distinct(typed)
    call = listed(text, separator, keys, is_distinct=is_distinct, breaks_ties=not is_certain)
    is_array = isinstance(node, exp.ArrayAgg)
    return Call(
        (call,),
        lambda sql: Typed(
            sql=f"concat('{{', {sql[0]}, '}}')" if is_array else sql[0],
            type=type,
            unstable=not is_certain,
        ),
    )


def _separator(node: exp.Expr | None, block: Block) -> str:
    text = block.translate(node).text if node is not None else None
    if text is None:
        raise Untranslatable("separator of string_agg that is no literal")
    return text
