"""Window functions."""

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.certainty import follows, tells_apart
from services.recompute.core.dialect.aggregates_calls import call_of
from services.recompute.core.dialect.casts import coerced
from services.recompute.core.dialect.forms import equality_key
from services.recompute.core.dialect.numerics import digits_of
from services.recompute.core.dialect.ordering import SortKey, sort_key
from services.recompute.core.dialect.scope import DIALECT, Block, folded, is_aggregate, place_of
from services.recompute.core.dialect.typed import FLOAT8, INT4, INT8, Typed, Untranslatable

_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
_SHARES: dict[type[exp.Expr], str] = {exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist"}
_NEIGHBOURS: dict[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}
_OF_FRAME: dict[type[exp.Expr], str] = {
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}
_BOUNDS = {"UNBOUNDED": "UNBOUNDED", "CURRENT ROW": "CURRENT ROW"}


def window(node: exp.Window, block: Block) -> Typed:
    if block.in_condition:
        raise Untranslatable("window in a condition")
    partition, order, spec = _definition(node, block)
    partition_sql = [equality_key(block.translate(one)) for one in partition]
    if block.shared:
        partition_sql.insert(0, block.grouping.q if block.grouping is not None else f"{block.parameters_as}.q")
    keys = [sort_key(ordered, block.translate(ordered.this), block) for ordered in order]
    frame, by_rows = _frame(spec)
    total = _is_total([*partition, *(ordered.this for ordered in order)], block)
    function = node.this
    kind = type(function)
    if kind in _RANKS or kind in _SHARES or isinstance(function, exp.Ntile):
        return _ranked(function, partition_sql, keys, block, total=total)
    ties = [] if total else _ties(block)
    if kind in _NEIGHBOURS:
        over = _over(partition_sql, keys, ties, "")
        return replace(_neighbour(function, over, block), unstable=not total)
    if kind in _OF_FRAME:
        # Peers of the current row end a default frame together: ties must not be broken there.
        over = _over(partition_sql, keys, ties if by_rows or kind is exp.FirstValue else [], frame)
        return replace(_of_frame(function, over, block), unstable=not total)
    if not is_aggregate(function):
        raise Untranslatable(f"window function {function.sql(dialect=DIALECT)}")
    if function.find(exp.Distinct):
        raise Untranslatable("DISTINCT of a window")
    call = call_of(function, block, windowed=True)
    over = _over(partition_sql, keys, ties if by_rows else [], frame)
    typed = call.value([f"{one} {over}" for one in call.calls])
    return replace(typed, unstable=typed.unstable or (by_rows and not total))


def _definition(node: exp.Window, block: Block) -> tuple[list[exp.Expr], list[exp.Ordered], exp.WindowSpec | None]:
    for part, given in node.args.items():
        if given and part not in ("this", "partition_by", "order", "spec", "over", "alias"):
            raise Untranslatable(f"{part} of a window")
    partition = list(node.args.get("partition_by") or ())
    order = list(node.args["order"].expressions) if node.args.get("order") else []
    spec = node.args.get("spec")
    alias = node.args.get("alias")
    if alias is not None:
        named = block.windows.get(folded(alias))
        if named is None:
            raise Untranslatable(f"window {alias.name}")
        base_partition, base_order, base_spec = _definition(named, block)
        partition, order, spec = partition or base_partition, order or base_order, spec or base_spec
    return partition, order, spec


def _frame(spec: exp.WindowSpec | None) -> tuple[str, bool]:
    """The frame in Spark's words, and whether it counts rows."""
    if spec is None:
        return "", False
    if spec.args.get("exclude"):
        raise Untranslatable("EXCLUDE of a frame")
    kind = str(spec.args.get("kind") or "").upper()
    start = _bound(spec.args.get("start"), spec.args.get("start_side"), kind)
    end = _bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), kind)
    if kind not in ("ROWS", "RANGE"):
        raise Untranslatable(f"frame of {kind}")
    return f" {kind} BETWEEN {start} AND {end}", kind == "ROWS"


def _bound(bound: object, side: object, kind: str) -> str:
    if isinstance(bound, str) and bound.upper() in _BOUNDS:
        word = bound.upper()
        return word if word == "CURRENT ROW" else f"{word} {str(side).upper()}"
    if kind == "ROWS" and isinstance(bound, exp.Literal) and bound.name.isdigit():
        return f"{int(bound.name)} {str(side).upper()}"
    raise Untranslatable("frame with that bound")


def _over(partition: list[str], keys: list[SortKey], ties: list[str], frame: str) -> str:
    parts = []
    if partition:
        parts.append(f"PARTITION BY {', '.join(partition)}")
    by = [key.over(key.sql) for key in keys] + ties
    if by:
        parts.append(f"ORDER BY {', '.join(by)}")
    return f"OVER ({' '.join(parts)}{frame})"


def _is_total(nodes: list[exp.Expr], block: Block) -> bool:
    """Whether no two rows of a partition tie."""
    resolved = [block.resolved(node) for node in nodes]
    places = [place for place in map(place_of, resolved) if place is not None]
    if block.grouping is None:
        return tells_apart(block.facts, places)
    return block.grouping.is_total(resolved, lambda wanted: follows(block.facts, places, wanted))


def _ties(block: Block) -> list[str]:
    """What breaks ties the same way each time, if the inputs have keys."""
    if block.grouping is not None:
        return block.grouping.key_columns
    return [
        f"{name}.c{position}"
        for name, entry in block.entries.items()
        for position in sorted((block.facts.keys[name] or (frozenset(range(len(entry.fields))),))[0])
    ]


def _ranked(function: exp.Expr, partition: list[str], keys: list[SortKey], block: Block, *, total: bool) -> Typed:
    kind = type(function)
    is_numbered = kind in (exp.RowNumber, exp.Ntile)
    ties = _ties(block) if is_numbered and not total else []
    # Spark wants an order for each of these; a constant makes all rows peers.
    over = _over(partition, keys, ties, "") if keys or ties else _over(partition, [], ["true"], "")
    unstable = is_numbered and not total
    if kind in _RANKS:
        return Typed(sql=f"CAST({_RANKS[kind]}() {over} AS BIGINT)", type=INT8, unstable=unstable)
    if kind in _SHARES:
        return Typed(sql=f"{_SHARES[kind]}() {over}", type=FLOAT8)
    buckets = function.this
    if not isinstance(buckets, exp.Literal) or not buckets.name.isdigit() or int(buckets.name) < 1:
        raise Untranslatable("ntile of that")
    return Typed(sql=f"ntile({int(buckets.name)}) {over}", type=INT4, unstable=unstable)


def _value(node: exp.Expr, block: Block) -> Typed:
    typed = block.translate(node)
    if typed.text is not None or typed.printed_scale is not None or typed.span is not None:
        raise Untranslatable("window over that value")
    return typed


def _shown(typed: Typed, sql: str) -> Typed:
    digits = digits_of(typed) if typed.type.name == "numeric" else typed.digits
    return replace(typed, sql=sql, type=replace(typed.type, modifier=-1), digits=digits, is_constant=False)


def _neighbour(function: exp.Expr, over: str, block: Block) -> Typed:
    typed = _value(function.this, block)
    offset = function.args.get("offset")
    if offset is not None and not (isinstance(offset, exp.Literal) and offset.name.isdigit()):
        raise Untranslatable("offset of lag and lead")
    steps = 1 if offset is None else int(offset.name)
    default = ""
    if function.args.get("default") is not None:
        beyond = coerced(block.translate(function.args["default"]), replace(typed.type, modifier=-1))
        if beyond.type.oid != typed.type.oid or typed.type.name == "numeric":
            raise Untranslatable("default of lag and lead")
        default = f", {beyond.sql}"
    return _shown(typed, f"{_NEIGHBOURS[type(function)]}({typed.sql}, {steps}{default}) {over}")


def _of_frame(function: exp.Expr, over: str, block: Block) -> Typed:
    typed = _value(function.this, block)
    name = _OF_FRAME[type(function)]
    if isinstance(function, exp.NthValue):
        offset = function.args.get("offset")
        if not isinstance(offset, exp.Literal) or not offset.name.isdigit() or int(offset.name) < 1:
            raise Untranslatable("nth_value of that")
        return _shown(typed, f"{name}({typed.sql}, {int(offset.name)}) {over}")
    return _shown(typed, f"{name}({typed.sql}) {over}")
