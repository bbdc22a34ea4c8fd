"""The aggregates, by their oids."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.certainty import tells_apart
from services.recompute.core.sql.aggregated_lists import array_text, listed
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.forms import equality_key, is_one_text, ordering_key
from services.recompute.core.sql.numerics import NARROW, as_decimal, digits_of, numeric_text, scale_sql
from services.recompute.core.sql.ordering import SortKey, check_distinct, sort_key
from services.recompute.core.sql.typed import (
    BOOL,
    FLOAT8,
    FLOATS,
    INT8,
    NUMERIC,
    STRINGS,
    TEXT,
    Typed,
    Untranslatable,
)
from services.recompute.core.storage import decimal_digits, spark_type
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.walking import walk

# Digits that a double gives back as they were.
_EXACT_IN_DOUBLE = 15
NAMES = {oid: name for name, oids in proven.AGGREGATES.items() for oid in oids}
_LISTS = ("array_agg", "string_agg")


class Call(Struct, frozen=True):
    """An aggregate in Spark: the calls that it needs, and the value made of what they give."""

    calls: tuple[str, ...]
    value: Callable[[Sequence[str]], Typed]
    # What a call gives where there are no rows, if it is not NULL.
    empty: str | None = None


def call_of(node: n.Aggref, block: Block) -> Call:
    """An aggregate over the block's rows, with its FILTER."""
    name = NAMES.get(node.aggfnoid)
    if name is None:
        raise Untranslatable(f"aggregate {node.aggfnoid}")
    if node.aggkind != "n" or node.aggvariadic or node.aggdirectargs or node.agglevelsup:
        raise Untranslatable("an aggregate of an outer query" if node.agglevelsup else "an ordered-set aggregate")
    if name in _LISTS:
        call = _list(name, node, block)
    else:
        if node.aggorder:
            raise Untranslatable("ORDER BY in an aggregate")
        given = [plain(entry, node.inputcollid, block) for entry in node.args]
        if node.aggdistinct and name in ("sum", "avg"):
            check_scales(given[0])
        call = made(name, given, "DISTINCT " if node.aggdistinct else "", block)
    if node.aggfilter is None:
        return call
    condition = plain(node.aggfilter, None, block).sql
    return Call(tuple(f"{one} FILTER (WHERE {condition})" for one in call.calls), call.value, call.empty)


def check_scales(typed: Typed) -> None:
    """1.0 and 1.00 are one value of two scales; which of them counts is chance unless all have the column's scale."""
    if typed.type.name == "numeric" and decimal_digits(typed.type) is None:
        raise Untranslatable("DISTINCT numerics of several scales")


def made(name: str, given: Sequence[Typed], distinct: str, block: Block) -> Call:
    """The call for values, as an aggregate or over a window."""
    if name == "count":
        counted = "1" if not given else equality_key(given[0]) if distinct else given[0].sql
        return Call((f"count({distinct}{counted})",), lambda sql: Typed(sql=sql[0], type=INT8), empty="0L")
    (typed,) = given
    if typed.deferred or typed.elapsed or typed.span is not None:
        raise Untranslatable("aggregate of a quotient" if typed.deferred else "aggregate of intervals")
    match name:
        case "sum":
            return _sum(typed, distinct)
        case "avg":
            return _avg(typed, distinct)
        case "min" | "max":
            return _extreme(name, typed, block)
        case "bool_and" | "bool_or" | "every":
            called = "bool_or" if name == "bool_or" else "bool_and"
            return Call((f"{called}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=BOOL))
    raise Untranslatable(f"aggregate {name}")


def plain(node: n.Expr, collation: int | None, block: Block) -> Typed:
    """An aggregate's argument, in the collation of the call; None: in its own."""
    from services.recompute.core.sql.expressions import collated

    expression = node.expr if isinstance(node, n.TargetEntry) else node
    if any(isinstance(inner, n.SubLink) for inner in walk(expression)):
        raise Untranslatable("subquery in an aggregate")
    typed = block.translate(expression)
    return typed if collation is None else collated(typed, collation, block)


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
    # A row whose value is NULL adds no scale either.
    scales = f"max(CASE WHEN {held.sql} IS NOT NULL THEN {scale_sql(held)} END)"
    return Call(
        (call, scales),
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
    if type.name in FLOATS:
        return _extreme_of_floats(name, typed.sql, result)
    return Call((f"{name}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=result, digits=digits))


def _extreme_of_floats(name: str, sql: str, result: PgType) -> Call:
    """0 and -0 are equal: which of them PostgreSQL finds depends on the order of its rows, so that it is asked."""
    negative = f"max(CASE WHEN {sql} = 0 AND CAST({sql} AS STRING) LIKE '-%' THEN 1 ELSE 0 END)"

    def value(found: Sequence[str]) -> Typed:
        unsure = f"CAST(raise_error('0 or -0') AS {spark_type(result)})"
        checked = f"CASE WHEN {found[0]} = 0 AND {found[1]} = 1 THEN {unsure} ELSE {found[0]} END"
        return Typed(sql=checked, type=result)

    return Call((f"{name}({sql})", negative), value)


def _list(name: str, node: n.Aggref, block: Block) -> Call:
    """string_agg and array_agg: texts in an order, which is a certain one only if no two different texts tie."""
    entries = [entry for entry in node.args if isinstance(entry, n.TargetEntry)]
    typed = plain(entries[0], node.inputcollid, block)
    by = [(clause, _referred(clause, entries)) for clause in node.aggorder]
    keys = [sort_key(clause, plain(entry, None, block), block) for clause, entry in by]
    places = {block.place(entry.expr) for _, entry in by} | block.group_places
    is_certain = any(key.sql == typed.sql for key in keys) or tells_apart(
        block.facts, [place for place in places if place is not None]
    )
    if name == "array_agg":
        if node.aggdistinct:
            raise Untranslatable("array_agg(DISTINCT …)")
        text, type_ = array_text(typed)
        return _listed_call(text, ",", keys, node, is_certain=is_certain, type_=type_)
    separator = block.translate(entries[1].expr).text
    if separator is None:
        raise Untranslatable("separator of string_agg that is no constant")
    if typed.type.name != "text":
        raise Untranslatable(f"string_agg of {typed.type.name}")
    if node.aggdistinct:
        check_distinct(typed)
    return _listed_call(typed.sql, separator, keys, node, is_certain=is_certain, type_=TEXT)


def _listed_call(
    text: str, separator: str, keys: Sequence[SortKey], node: n.Aggref, *, is_certain: bool, type_: PgType
) -> Call:
    call = listed(text, separator, keys, is_distinct=bool(node.aggdistinct), breaks_ties=not is_certain)
    is_array = type_ is not TEXT
    return Call(
        (call,),
        lambda sql: Typed(
            sql=f"concat('{{', {sql[0]}, '}}')" if is_array else sql[0], type=type_, unstable=not is_certain
        ),
    )


def _referred(clause: n.Expr, entries: Sequence[n.TargetEntry]) -> n.TargetEntry:
    reference = clause.tleSortGroupRef if isinstance(clause, n.SortGroupClause) else 0
    for entry in entries:
        if reference and entry.ressortgroupref == reference:
            return entry
    raise Untranslatable("an order of an aggregate that is not understood")
