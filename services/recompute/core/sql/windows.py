"""Window functions, by their oids."""

from collections.abc import Sequence
from itertools import chain

from msgspec.structs import replace

from services.recompute.core.certainty import follows, tells_apart
from services.recompute.core.sql.aggregates import NAMES as AGGREGATES
from services.recompute.core.sql.aggregates import made
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.forms import equality_key
from services.recompute.core.sql.numerics import digits_of
from services.recompute.core.sql.ordering import SortKey, sort_key
from services.recompute.core.sql.typed import FLOAT8, INT4, INT8, Typed, Untranslatable
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven

NAMES = {oid: name for name, oids in proven.WINDOW_FUNCTIONS.items() for oid in oids}
_RANKS = ("row_number", "rank", "dense_rank")
_SHARES = ("percent_rank", "cume_dist")
_NEIGHBOURS = ("lag", "lead")
_OF_FRAME = ("first_value", "last_value", "nth_value")
# frameOptions of a WindowClause (parsenodes.h).
_RANGE, _ROWS = 0x2, 0x4
_STARTS = {0x20: "UNBOUNDED PRECEDING", 0x200: "CURRENT ROW", 0x800: "{} PRECEDING", 0x2000: "{} FOLLOWING"}
_ENDS = {0x100: "UNBOUNDED FOLLOWING", 0x400: "CURRENT ROW", 0x1000: "{} PRECEDING", 0x4000: "{} FOLLOWING"}
_NON_DEFAULT, _BETWEEN = 0x1, 0x10
_SORTED = frozenset((0, *chain(*proven.SORTED.values())))


def window(node: n.WindowFunc, block: Block) -> Typed:
    if block.in_condition:
        raise Untranslatable("window in a condition")
    if node.aggfilter is not None:
        raise Untranslatable("FILTER of a window")
    clause = _clause(node, block)
    partition = [expression_of(one, block) for one in clause.partitionClause]
    order = [expression_of(one, block) for one in clause.orderClause]
    partition_sql = [equality_key(block.translate(one)) for one in partition]
    if block.shared:
        partition_sql.insert(0, block.grouping.q if block.grouping is not None else f"{block.parameters_as}.q")
    keys = [sort_key(one, block.translate(node), block) for one, node in zip(clause.orderClause, order, strict=True)]
    frame, by_rows = _frame(clause, block)
    total = _is_total([*partition, *order], block)
    name = NAMES.get(node.winfnoid) or AGGREGATES.get(node.winfnoid)
    if name in _RANKS or name in _SHARES or name == "ntile":
        return _ranked(name, node, partition_sql, keys, block, total=total)
    ties = [] if total else _ties(block)
    if name in _NEIGHBOURS:
        over = _over(partition_sql, keys, ties, "")
        return replace(_neighbour(name, node, over, block), unstable=not total)
    if name in _OF_FRAME:
        # Peers of the current row end a default frame together: ties must not be broken there.
        over = _over(partition_sql, keys, ties if by_rows or name == "first_value" else [], frame)
        return replace(_of_frame(name, node, over, block), unstable=not total)
    if name is None or not node.winagg or name in ("array_agg", "string_agg"):
        raise Untranslatable(f"window function {node.winfnoid}")
    from services.recompute.core.sql.expressions import arguments

    call = made(name, arguments(node.args, node.inputcollid, block), "", block)
    over = _over(partition_sql, keys, ties if by_rows else [], frame)
    typed = call.value([f"{one} {over}" for one in call.calls])
    return replace(typed, unstable=typed.unstable or (by_rows and not total))


def _clause(node: n.WindowFunc, block: Block) -> n.WindowClause:
    for clause in block.query.windowClause if block.query is not None else ():
        if isinstance(clause, n.WindowClause) and clause.winref == node.winref:
            return clause
    raise Untranslatable("a window that is not there")


def expression_of(clause: n.Expr, block: Block) -> n.Expr:
    """What a clause of the query sorts, groups or partitions by."""
    if not isinstance(clause, n.SortGroupClause) or not {clause.eqop, clause.sortop} <= _SORTED:
        raise Untranslatable("an order or equality by another operator")
    reference = clause.tleSortGroupRef
    for entry in block.query.targetList if block.query is not None else ():
        if isinstance(entry, n.TargetEntry) and reference and entry.ressortgroupref == reference:
            return entry.expr
    raise Untranslatable("a clause that is not understood")


def _frame(clause: n.WindowClause, block: Block) -> tuple[str, bool]:
    """The frame in Spark's words, and whether it counts rows."""
    options = clause.frameOptions
    if not options & _NON_DEFAULT:
        return "", False
    kind = options & (_RANGE | _ROWS)
    start = _bound(options & sum(_STARTS), _STARTS, clause.startOffset, kind, block)
    end = _bound(options & sum(_ENDS), _ENDS, clause.endOffset, kind, block)
    known = kind | _NON_DEFAULT | _BETWEEN | sum(_STARTS) | sum(_ENDS)
    if kind not in (_RANGE, _ROWS) or options & ~known:
        raise Untranslatable("a frame of that kind")
    return f" {'ROWS' if kind == _ROWS else 'RANGE'} BETWEEN {start} AND {end}", kind == _ROWS


def _bound(option: int, words: dict[int, str], offset: n.Expr | None, kind: int, block: Block) -> str:
    form = words.get(option)
    if form is None:
        raise Untranslatable("a frame with that bound")
    if offset is None:
        return form
    many = _count(offset, block, least=0)
    if many is None or kind != _ROWS:
        raise Untranslatable("a frame with that bound")
    return form.format(many)


def _count(node: n.Expr, block: Block, *, least: int) -> int | None:
    """A constant number of rows."""
    while isinstance(node, n.FuncExpr) and node.funcformat == 2 and len(node.args) == 1:
        (node,) = node.args
    text = block.translate(node).text if isinstance(node, n.Const) else None
    return int(text) if text is not None and text.isdigit() and int(text) >= least else None


def _over(partition: list[str], keys: Sequence[SortKey], ties: list[str], frame: str) -> str:
    parts = []
    if partition:
        parts.append(f"PARTITION BY {', '.join(partition)}")
    by = [key.over(key.sql) for key in keys] + ties
    if by:
        parts.append(f"ORDER BY {', '.join(by)}")
    return f"OVER ({' '.join(parts)}{frame})"


def _is_total(nodes: list[n.Expr], block: Block) -> bool:
    """Whether no two rows of a partition tie."""
    places = [place for place in map(block.place, nodes) if place is not None]
    if block.grouping is None:
        return tells_apart(block.facts, places)
    return block.grouping.is_total(nodes, lambda wanted: follows(block.facts, places, wanted))


def _ties(block: Block) -> list[str]:
    """What breaks ties the same way each time, if the inputs have keys."""
    if block.grouping is not None:
        return block.grouping.key_columns
    return [
        f"{name}.c{position}"
        for name, entry in block.inputs.items()
        for position in sorted((block.facts.keys[name] or (frozenset(range(len(entry.fields))),))[0])
    ]


def _ranked(
    name: str, node: n.WindowFunc, partition: list[str], keys: Sequence[SortKey], block: Block, *, total: bool
) -> Typed:
    is_numbered = name in ("row_number", "ntile")
    ties = _ties(block) if is_numbered and not total else []
    # Spark wants an order for each of these; a constant makes all rows peers.
    over = _over(partition, keys, ties, "") if keys or ties else _over(partition, [], ["true"], "")
    unstable = is_numbered and not total
    if name in _RANKS:
        return Typed(sql=f"CAST({name}() {over} AS BIGINT)", type=INT8, unstable=unstable)
    if name in _SHARES:
        return Typed(sql=f"{name}() {over}", type=FLOAT8)
    buckets = _count(node.args[0], block, least=1)
    if buckets is None:
        raise Untranslatable("ntile of that")
    return Typed(sql=f"ntile({buckets}) {over}", type=INT4, unstable=unstable)


def _value(node: n.Expr, block: Block) -> Typed:
    typed = block.translate(node)
    if typed.printed_scale is not None or typed.span is not None or typed.elapsed:
        raise Untranslatable("window over that value")
    return typed


def _shown(typed: Typed, sql: str) -> Typed:
    digits = digits_of(typed) if typed.type.name == "numeric" and not typed.deferred else typed.digits
    type_ = replace(typed.type, modifier=-1)
    return replace(typed, sql=sql, type=type_, digits=digits, is_constant=False, text=None)


def _neighbour(name: str, node: n.WindowFunc, over: str, block: Block) -> Typed:
    typed = _value(node.args[0], block)
    steps = _count(node.args[1], block, least=0) if len(node.args) > 1 else 1
    if steps is None:
        raise Untranslatable("offset of lag and lead")
    default = ""
    if len(node.args) > 2:
        beyond = block.translate(node.args[2])
        if beyond.type.oid != typed.type.oid or typed.type.name == "numeric":
            raise Untranslatable("default of lag and lead")
        default = f", {beyond.sql}"
    return _shown(typed, f"{name}({typed.sql}, {steps}{default}) {over}")


def _of_frame(name: str, node: n.WindowFunc, over: str, block: Block) -> Typed:
    typed = _value(node.args[0], block)
    if name != "nth_value":
        return _shown(typed, f"{name}({typed.sql}) {over}")
    place = _count(node.args[1], block, least=1)
    if place is None:
        raise Untranslatable("nth_value of that")
    return _shown(typed, f"{name}({typed.sql}, {place}) {over}")
