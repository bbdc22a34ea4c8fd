"""A query of the tree as Spark SQL."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from services.recompute.core.certainty import certain_key, follows, tells_apart
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.expressions import condition
from services.recompute.core.sql.forms import equality_key, ordering_key
from services.recompute.core.sql.from_items import from_clause
from services.recompute.core.sql.grouping import Grouping
from services.recompute.core.sql.joins import note_condition
from services.recompute.core.sql.numerics import numeric_text
from services.recompute.core.sql.ordering import SortKey, arranged, check_distinct, limit_of, sort_key
from services.recompute.core.sql.setops import set_operation
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.sql.windows import expression_of
from services.recompute.core.sql.world import Field, Origin, Rows, World
from services.recompute.core.tree import nodes as n

# Functions that give NULL for a NULL only: date_trunc, lower, upper, length, abs; and casts of numbers.
_STRICT = frozenset(
    (
        *(1217, 2020, 870, 871, 1317, 1318, 1394, 1395, 1396, 1397, 1398, 1705),
        *(1740, 1781, 1782, 480, 481, 754, 714, 316, 235, 482, 311, 1746, 401, 406, 2024, 2027, 2028, 1174, 2029, 1178),
    )
)
_COUNTS = frozenset((2147, 2803))


class Sorting(Struct, frozen=True):
    """ORDER BY: its keys, the expressions they come from, and for each the output column that it is, or -1."""

    keys: list[SortKey]
    nodes: list[n.Expr]
    positions: list[int]


def translated(
    query: n.Query, world: World, outer: Block | None, *, top: bool = False, sees_outer: bool = True
) -> Rows:
    """Raises Untranslatable for what is not known to be equal in Spark."""
    _refuse(query)
    block = Block(world, query, outer, top=top and query.setOperations is None, sees_outer=sees_outer)
    if query.setOperations is not None:
        return set_operation(query, block, top=top)
    return _select(query, block)


def _refuse(query: n.Query) -> None:
    for holds, noun in (
        (query.commandType != 1, "a command that is no SELECT"),
        (query.hasTargetSRFs, "a function of several rows in a select list"),
        (bool(query.rowMarks), "FOR UPDATE"),
        (query.hasRecursive and any(_is_recursive(cte) for cte in query.cteList), "recursive query"),
        (any(getattr(one, "kind", 1) != 0 for one in query.groupingSets), "GROUPING SETS"),
    ):
        if holds:
            raise Untranslatable(noun)


def _is_recursive(cte: n.Expr) -> bool:
    return not isinstance(cte, n.CommonTableExpr) or cte.cterecursive


def _select(query: n.Query, block: Block) -> Rows:
    items = [entry for entry in query.targetList if isinstance(entry, n.TargetEntry) and not entry.resjunk]
    if not items:
        raise Untranslatable("result without columns")
    source = from_clause(query, block)
    assert isinstance(query.jointree, n.FromExpr)
    where = _condition(query.jointree.quals, block)
    if query.jointree.quals is not None:
        note_condition(query.jointree.quals, block)
    if query.groupClause or query.groupingSets or query.havingQual is not None or _has_aggregates(query):
        block.grouping = Grouping(block, [expression_of(clause, block) for clause in query.groupClause])
    outputs, reads = _outputs(items, block)
    having = _condition(query.havingQual, block)
    sorting = _sorting(query, items, outputs, block)
    is_distinct = bool(query.distinctClause) and not query.hasDistinctOn
    apart = _distinct_on(query, items, outputs, block)
    keys = _keys(items, outputs, block, whole=is_distinct)
    limit = limit_of(query, block)
    total = _is_total(sorting, block, keys, whole=is_distinct)
    if query.hasDistinctOn and all(position >= 0 for position in apart.positions):
        # Of the rows that are left, not of those among which the first is chosen.
        keys = (*keys, frozenset(apart.positions))
    if (limit.cuts or query.hasDistinctOn) and not total:
        block.unstable = True
    if block.grouping is not None:
        source, where = block.grouping.sql(source, where), ""
    where = _both(where, having)
    sql = _staged(outputs, sorting, apart, source, where, block, distinct=is_distinct)
    if query.hasDistinctOn:
        sql = _first_of_each(sql, len(outputs), sorting, len(apart.keys), block, total=total)
    if query.distinctClause:
        block.used.update(*reads)
    bare = not query.hasDistinctOn
    return Rows(
        sql=arranged(sql, len(outputs), sorting.keys, limit, block.world, total=total, top=block.top, bare=bare),
        fields=tuple(
            Field(replace(typed, sql=f"c{number}", is_constant=False, text=None), _is_present(item.expr, block), found)
            for number, (item, typed, found) in enumerate(zip(items, outputs, reads, strict=True))
        ),
        keys=keys,
        reads=frozenset(block.used),
        tables=frozenset(block.tables),
        ordered=bool(sorting.keys),
        unstable=block.unstable,
        correlated=block.correlated,
        is_whole=block.grouping is not None and block.grouping.is_whole,
        is_cut=bool(having) or limit.cuts,
    )


def _has_aggregates(query: n.Query) -> bool:
    """Whether an aggregate of this query stands in its select list; subqueries hold their own."""
    pending: list[n.Expr] = list(query.targetList)
    from services.recompute.core.tree.walking import children

    while pending:
        node = pending.pop()
        if isinstance(node, n.Aggref) and node.agglevelsup == 0:
            return True
        if not isinstance(node, n.Query):
            pending += children(node)
    return False


def _condition(node: n.Expr | None, block: Block) -> str:
    if node is None:
        return ""
    with block.as_condition():
        return f" WHERE {condition(node, block).sql}"


def _both(where: str, having: str) -> str:
    if where and having:
        return f" WHERE ({where.removeprefix(' WHERE ')}) AND ({having.removeprefix(' WHERE ')})"
    return where or having


def _outputs(items: Sequence[n.TargetEntry], block: Block) -> tuple[list[Typed], list[frozenset[Origin]]]:
    outputs: list[Typed] = []
    reads: list[frozenset[Origin]] = []
    for item in items:
        with block.recorded() as used:
            typed = block.translate(item.expr)
        if typed.span is not None:
            raise Untranslatable("interval in a result")
        if typed.printed_scale is not None:
            # Outside, nobody knows the scale that goes with each value: the text does.
            typed = replace(typed, sql=numeric_text(typed), digits=None, printed_scale=None)
        outputs.append(typed)
        reads.append(frozenset(used))
    return outputs, reads


def _target(node: n.Expr, items: Sequence[n.TargetEntry], block: Block) -> int:
    """The output column that an expression is, or -1."""
    resolved = block.resolved(node)
    return next((number for number, item in enumerate(items) if block.resolved(item.expr) == resolved), -1)


def _sorting(query: n.Query, items: Sequence[n.TargetEntry], outputs: Sequence[Typed], block: Block) -> Sorting:
    sorting = Sorting([], [], [])
    is_cut = query.limitCount is not None or query.limitOffset is not None
    if not (block.top or is_cut or query.distinctClause):
        return sorting
    for clause in query.sortClause:
        node = expression_of(clause, block)
        position = _target(node, items, block)
        with block.recorded() as used:
            typed = block.translate(node)
        block.used |= used
        sorting.keys.append(sort_key(clause, outputs[position] if position >= 0 else typed, block))
        sorting.nodes.append(node)
        sorting.positions.append(position)
    return sorting


def _distinct_on(query: n.Query, items: Sequence[n.TargetEntry], outputs: Sequence[Typed], block: Block) -> Sorting:
    found = Sorting([], [], [])
    for clause in query.distinctClause if query.hasDistinctOn else ():
        node = expression_of(clause, block)
        position = _target(node, items, block)
        typed = outputs[position] if position >= 0 else block.translate(node)
        found.keys.append(SortKey(equality_key(typed), False, False))
        found.nodes.append(node)
        found.positions.append(position)
    return found


def _is_total(sorting: Sorting, block: Block, keys: Sequence[frozenset[int]], *, whole: bool) -> bool:
    """Whether ORDER BY leaves no ties."""
    positions = {position for position in sorting.positions if position >= 0}
    if any(key <= positions for key in keys):
        return True
    if whole:
        return False
    places = [place for place in map(block.place, sorting.nodes) if place is not None]
    if block.grouping is not None:
        return block.grouping.is_total(sorting.nodes, lambda wanted: follows(block.facts, places, wanted))
    return tells_apart(block.facts, places)


def _keys(
    items: Sequence[n.TargetEntry], outputs: Sequence[Typed], block: Block, *, whole: bool
) -> tuple[frozenset[int], ...]:
    """Sets of output columns that are different in each row."""
    keys: list[frozenset[int]] = []
    places = [block.place(item.expr) for item in items]
    shown = {place: number for number, place in reversed(list(enumerate(places))) if place is not None}
    if block.grouping is None:
        key = certain_key(block.facts, shown)
        if key is not None:
            keys.append(frozenset(key))
    elif block.grouping.is_whole:
        keys.append(frozenset())
    else:
        found = block.grouping.shown(
            [item.expr for item in items], lambda given, wanted: follows(block.facts, given, wanted)
        )
        if found is not None:
            keys.append(found)
    if whole:
        for typed in outputs:
            check_distinct(typed)
        keys.append(frozenset(range(len(items))))
    return tuple(keys)


def _is_present(node: n.Expr, block: Block) -> bool:
    """Whether a value is never NULL, as far as that is seen easily."""
    node = block.resolved(node)
    place = block.place(node)
    if place is not None:
        return place in block.present or (place[0] not in block.nullable and block.field_at(place).not_null)
    match node:
        case n.FuncExpr(funcid=oid, args=args) if oid in _STRICT:
            return all(_is_present(argument, block) for argument in args)
        case n.RelabelType(arg=arg) | n.CoerceViaIO(arg=arg):
            return _is_present(arg, block)
        case n.Aggref(aggfnoid=oid):
            return oid in _COUNTS
        case n.Const(constisnull=is_null):
            return not is_null
    return False


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
        return f"SELECT {', '.join(shown + extra)}{tail}"
    if any(position < 0 for position in sorting.positions):
        raise Untranslatable("SELECT DISTINCT ordered by what it does not show")
    inner = f"SELECT DISTINCT {', '.join(shown)}{tail}"
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
