"""A SELECT as Spark SQL."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.certainty import certain_key, follows, tells_apart
from services.recompute.core.dialect.aggregates import Grouping
from services.recompute.core.dialect.ctes import with_named
from services.recompute.core.dialect.forms import equality_key, ordering_key
from services.recompute.core.dialect.from_items import from_clause
from services.recompute.core.dialect.joins import note_condition
from services.recompute.core.dialect.numerics import numeric_text
from services.recompute.core.dialect.ordering import (
    SortKey,
    arranged,
    check_distinct,
    limit_of,
    sort_key,
)  # fmt: skip
from services.recompute.core.dialect.scope import (
    Block,
    Field,
    NotShared,
    Origin,
    Query,
    World,
    folded,
    is_aggregate,
    place_of,
)
from services.recompute.core.dialect.select_list import Item, items_of, order_target
from services.recompute.core.dialect.setops import set_operation, values
from services.recompute.core.dialect.typed import BOOL, Typed, Untranslatable

_PARTS = frozenset(
    (
        *("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct"),
        *("with_", "windows", "kind"),
    )
)

# Functions that give NULL for a NULL only.
_STRICT = frozenset(("date_trunc", "lower", "upper", "length", "abs"))


class Sorting(Struct, frozen=True):
    """ORDER BY: its keys, the expressions they come from, and for each the output column that it is, or -1."""

    keys: list[SortKey]
    nodes: list[exp.Expr]
    positions: list[int]


def translated(node: exp.Expr, outer: Block | None, ctes: Mapping[str, Query], top: bool, *, world: World) -> Query:
    """Any query: SELECT, set operation, VALUES, in parentheses or not."""
    while isinstance(node, exp.Subquery):
        if any(given for part, given in node.args.items() if part not in ("this", "with_", "order", "limit", "offset")):
            raise Untranslatable("query in parentheses with more around it")
        if any(node.args.get(part) for part in ("order", "limit", "offset", "with_")):
            raise Untranslatable("query in parentheses with more after it")
        node = node.this
    ctes = with_named(node, world, outer, ctes)
    if isinstance(node, exp.SetOperation):
        return set_operation(node, world, outer, ctes, top)
    if isinstance(node, exp.Values):
        block = Block(world, outer, ctes, top=False)
        if top and world.shared:
            raise NotShared
        query = values(node, block)
        sql = arranged(query.sql, len(query.fields), [], limit_of(node, block), world, total=False, top=top, bare=True)
        return replace(query, sql=sql)
    if not isinstance(node, exp.Select):
        raise Untranslatable(f"{type(node).__name__.upper()} query")
    return _select(node, Block(world, outer, ctes, top=top))


def _select(node: exp.Select, block: Block) -> Query:
    for part, given in node.args.items():
        if given and part not in _PARTS:
            raise Untranslatable(f"{part.rstrip('_').upper()} in a query")
    source = from_clause(node, block)
    block.windows = {folded(named.this): named for named in node.args.get("windows") or ()}
    items = items_of(node, block)
    if not items:
        raise Untranslatable("result without columns")
    where = _condition(node.args.get("where"), block)
    if node.args.get("where") is not None:
        note_condition(node.args["where"].this, block)
    _group(node, items, block)
    outputs, reads = _outputs(items, block)
    having = _condition(node.args.get("having"), block)
    sorting = _sorting(node, items, outputs, block)
    distinct = node.args.get("distinct")
    on = list(distinct.args["on"].expressions) if distinct is not None and distinct.args.get("on") else []
    apart = _distinct_on(on, items, outputs, block)
    keys = _keys(items, outputs, block, whole=distinct is not None and not on)
    if on and all(position >= 0 for position in apart.positions):
        keys = (*keys, frozenset(apart.positions))
    limit = limit_of(node, block)
    total = _is_total(sorting, block, keys, whole=distinct is not None and not on)
    if (limit.count is not None or limit.skip is not None or on) and not total:
        block.unstable = True
    if block.grouping is not None:
        source, where = block.grouping.sql(source, where), ""
    where = _both(where, having)
    sql = _staged(outputs, sorting, apart, source, where, block, distinct=distinct is not None and not on)
    if on:
        sql = _first_of_each(sql, len(outputs), sorting, len(apart.keys), block, total=total)
    if distinct is not None:
        block.used.update(*reads)
    return Query(
        sql=arranged(sql, len(outputs), sorting.keys, limit, block.world, total=total, top=block.top, bare=not on),
        fields=tuple(
            Field(item.name, replace(typed, sql=f"c{number}", is_constant=False), _not_null(item, block), found)
            for number, (item, typed, found) in enumerate(zip(items, outputs, reads, strict=True))
        ),
        keys=keys,
        reads=frozenset(block.used),
        tables=frozenset(block.tables),
        ordered=bool(sorting.keys),
        unstable=block.unstable,
        correlated=block.correlated,
        is_whole=block.grouping is not None and block.grouping.is_whole,
        is_cut=bool(having) or limit.count is not None or limit.skip is not None,
    )


def _condition(clause: exp.Expr | None, block: Block) -> str:
    if clause is None:
        return ""
    block.in_condition = True
    typed = block.translate(clause.this)
    block.in_condition = False
    if typed.type != BOOL and typed.text is None:
        raise Untranslatable("condition that is not boolean")
    return f" WHERE {typed.sql}"


def _both(where: str, having: str) -> str:
    if where and having:
        return f" WHERE ({where.removeprefix(' WHERE ')}) AND ({having.removeprefix(' WHERE ')})"
    return where or having


def _group(node: exp.Select, items: Sequence[Item], block: Block) -> None:
    group = node.args.get("group")
    having, order = node.args.get("having"), node.args.get("order")
    parts = [item.node for item in items] + [part for part in (having, order) if part is not None]
    if group is None and having is None and not any(_aggregates(part) for part in parts):
        return
    wanted: list[exp.Expr] = []
    if group is not None:
        if any(given for part, given in group.args.items() if part != "expressions"):
            raise Untranslatable("GROUPING SETS")
        for expression in group.expressions:
            if not (isinstance(expression, exp.Tuple) and not expression.expressions):
                wanted.append(_group_target(expression, items, block))
    block.grouping = Grouping(block, wanted)


def _aggregates(node: exp.Expr) -> bool:
    """Whether an aggregate stands here, not in a subquery and not as a window."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        inside = node.this.this if isinstance(node.this, exp.Filter) else node.this
        return any(_aggregates(child) for child in inside.iter_expressions()) or any(
            _aggregates(child) for child in node.iter_expressions() if child is not node.this
        )
    return is_aggregate(node) or any(_aggregates(child) for child in node.iter_expressions())


def _group_target(node: exp.Expr, items: Sequence[Item], block: Block) -> exp.Expr:
    """PostgreSQL's rule for GROUP BY: a bare name is an input column first, then an output's name."""
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
        raise Untranslatable("GROUPING SETS")
    if isinstance(node, exp.Literal) and not node.is_string:
        return items[int(node.name) - 1].node
    if isinstance(node, exp.Column) and not node.table and block.lookup(node) is None:
        found = [item.node for item in items if item.name == folded(node.this)]
        if found:
            return found[0]
    return node


def _outputs(items: Sequence[Item], block: Block) -> tuple[list[Typed], list[frozenset[Origin]]]:
    outputs: list[Typed] = []
    reads: list[frozenset[Origin]] = []
    for item in items:
        with block.recorded() as used:
            typed = block.translate(item.node)
        if typed.span is not None:
            raise Untranslatable("interval in a result")
        if typed.printed_scale is not None:
            # Outside, nobody knows the scale that goes with each value: the text does.
            typed = replace(typed, sql=numeric_text(typed), digits=None, printed_scale=None)
        outputs.append(typed)
        reads.append(frozenset(used))
    return outputs, reads


def _sorting(node: exp.Select, items: Sequence[Item], outputs: Sequence[Typed], block: Block) -> Sorting:
    order = node.args.get("order")
    sorting = Sorting([], [], [])
    is_seen = block.top or node.args.get("limit") or node.args.get("offset") or node.args.get("distinct")
    for ordered in order.expressions if order is not None and is_seen else ():
        position, target = order_target(ordered.this, items, block)
        typed = outputs[position] if position >= 0 else block.translate(target)
        if position >= 0:
            with block.recorded() as used:
                block.translate(items[position].node)
            block.used |= used
        sorting.keys.append(sort_key(ordered, typed, block))
        sorting.nodes.append(target)
        sorting.positions.append(position)
    return sorting


def _distinct_on(nodes: Sequence[exp.Expr], items: Sequence[Item], outputs: Sequence[Typed], block: Block) -> Sorting:
    """DISTINCT ON's expressions; they follow ORDER BY's rule of names."""
    found = Sorting([], [], [])
    for node in nodes:
        position, target = order_target(node, items, block)
        typed = outputs[position] if position >= 0 else block.translate(target)
        found.keys.append(SortKey(equality_key(typed), False, False))
        found.nodes.append(target)
        found.positions.append(position)
    return found


def _is_total(sorting: Sorting, block: Block, keys: Sequence[frozenset[int]], *, whole: bool) -> bool:
    """Whether ORDER BY leaves no ties."""
    positions = {position for position in sorting.positions if position >= 0}
    if any(key <= positions for key in keys):
        return True
    if whole:
        return False
    resolved = [block.resolved(node) for node in sorting.nodes]
    places = [place for place in map(place_of, resolved) if place is not None]
    if block.grouping is not None:
        return block.grouping.is_total(resolved, lambda wanted: follows(block.facts, places, wanted))
    return tells_apart(block.facts, places)


def _keys(items: Sequence[Item], outputs: Sequence[Typed], block: Block, *, whole: bool) -> tuple[frozenset[int], ...]:
    """Sets of output columns that are different in each row."""
    keys: list[frozenset[int]] = []
    places = [place_of(block.resolved(item.node)) for item in items]
    shown = {place: number for number, place in reversed(list(enumerate(places))) if place is not None}
    if block.grouping is None:
        key = certain_key(block.facts, shown)
        if key is not None:
            keys.append(frozenset(key))
    elif block.grouping.is_whole:
        keys.append(frozenset())
    else:
        found = block.grouping.shown(
            [item.node for item in items], lambda given, wanted: follows(block.facts, given, wanted)
        )
        if found is not None:
            keys.append(found)
    if whole:
        for typed in outputs:
            check_distinct(typed)
        keys.append(frozenset(range(len(items))))
    return tuple(keys)


def _not_null(item: Item, block: Block) -> bool:
    return _is_present(block.resolved(item.node), block)


def _is_present(node: exp.Expr, block: Block) -> bool:
    """Whether a value is never NULL, as far as that is seen easily."""
    place = place_of(node)
    if place is not None:
        return place in block.present or (place[0] not in block.nullable and block.field_at(place).not_null)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in _STRICT:
        return all(_is_present(argument, block) for argument in node.expressions)
    if isinstance(node, exp.Cast | exp.Paren):
        return _is_present(node.this, block)
    return isinstance(node, exp.Count) or (isinstance(node, exp.Literal) and not node.args.get("null"))


def _staged(
    outputs: Sequence[Typed],
    sorting: Sorting,
    apart: Sorting,
    source: str,
    where: str,
    block: Block,
    *,
    distinct: bool,
) -> str:
    """The query before order and limit: q, c0 …, then s0 … to sort by and d0 … to be distinct on."""
    shared = block.shared
    q = (block.grouping.q if block.grouping is not None else f"{block.parameters_as}.q") if shared else ""
    shown = ([f"{q} AS q"] if shared else []) + [f"{typed.sql} AS c{number}" for number, typed in enumerate(outputs)]
    extra = [f"{key.sql} AS s{number}" for number, key in enumerate(sorting.keys)]
    extra += [f"{key.sql} AS d{number}" for number, key in enumerate(apart.keys)]
    tail = f"{f' FROM {source}' if source else ''}{where}"
    if not distinct:
        return f"SELECT {', '.join(shown + extra) or '1 AS nothing'}{tail}"
    if any(position < 0 for position in sorting.positions):
        raise Untranslatable("SELECT DISTINCT ordered by what it does not show")
    inner = f"SELECT DISTINCT {', '.join(shown) or '1 AS nothing'}{tail}"
    if not sorting.keys:
        return inner
    name = block.world.name("d")
    again = [
        f"{ordering_key(replace(outputs[position], sql=f'c{position}'), block)} AS s{number}"
        for number, position in enumerate(sorting.positions)
    ]
    columns = (["q"] if shared else []) + [f"c{number}" for number in range(len(outputs))]
    return f"SELECT {', '.join(columns + again)} FROM ({inner}) AS {name}"


def _first_of_each(sql: str, width: int, sorting: Sorting, count: int, block: Block, *, total: bool) -> str:
    """DISTINCT ON: the first row of each, by the query's own order."""
    order = [key.over(f"s{number}") for number, key in enumerate(sorting.keys)]
    order += [] if total and order else [f"c{number} ASC NULLS LAST" for number in range(width)]
    partition = (["q"] if block.shared else []) + [f"d{number}" for number in range(count)]
    place = f"row_number() OVER (PARTITION BY {', '.join(partition)} ORDER BY {', '.join(order) or 'true'})"
    return f"SELECT * FROM (SELECT *, {place} AS n FROM ({sql})) WHERE n = 1"
