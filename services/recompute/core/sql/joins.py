"""How two FROM items are joined, and what that says of their rows."""

from collections.abc import Iterable

from msgspec import Struct
from sqlglot import exp

from services.recompute.core.certainty import Place
from services.recompute.core.dialect.scope import Block, folded, place_of
from services.recompute.core.dialect.typed import Typed, Untranslatable

_KINDS = {"": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


class Side(Struct):
    """Part of a FROM clause: its Spark SQL, the names it shows, the inputs in it."""

    sql: str
    visible: list[tuple[str, exp.Expr]]
    names: set[str]
    # Holds a join that must not be taken apart.
    closed: bool = False


def cross(left: Side, right: Side) -> Side:
    sql = f"({right.sql})" if right.closed else right.sql
    return Side(
        sql=f"{left.sql} CROSS JOIN {sql}",
        visible=left.visible + right.visible,
        names=left.names | right.names,
        closed=left.closed,
    )


def joined(left: Side, join: exp.Join, right: Side, block: Block, *, lateral: bool) -> Side:
    for part, given in join.args.items():
        if given and part not in ("this", "on", "using", "side", "kind", "method"):
            raise Untranslatable(f"{part} of a join")
    side = join.side
    if side not in _KINDS or join.kind not in ("", "INNER", "CROSS", "OUTER"):
        raise Untranslatable(f"{side} {join.kind} join")
    if lateral and side not in ("", "LEFT"):
        raise Untranslatable("lateral join of that kind")
    names = left.names | right.names
    visible = left.visible + right.visible
    conditions: list[tuple[exp.Expr, exp.Expr]] = []
    if join.method == "NATURAL" or join.args.get("using"):
        conditions, visible = _merged(left, right, join, block)
    _extend_nulls(side, left, right, block)
    right_sql = f"({right.sql})" if right.closed else right.sql
    on = join.args.get("on")
    if on is None and not conditions:
        block.visible = visible
        # NATURAL without a common column, or CROSS.
        word = "CROSS JOIN" if not side else f"{_KINDS[side]}"
        return Side(sql=f"{left.sql} {word} {right_sql}{' ON true' if side else ''}", visible=visible, names=names)
    block.visible = left.visible + right.visible
    sql = _condition(on, conditions, block)
    note_join(side, on, conditions, left, right, block)
    block.visible = visible
    return Side(sql=f"{left.sql} {_KINDS[side]} {right_sql} ON {sql}", visible=visible, names=names)


def _condition(on: exp.Expr | None, pairs: list[tuple[exp.Expr, exp.Expr]], block: Block) -> str:
    nodes = [exp.EQ(this=mine.copy(), expression=other.copy()) for mine, other in pairs]
    outside, block.in_condition = block.in_condition, False
    try:
        parts = [block.translate(node).sql for node in nodes]
        if on is not None:
            parts.append(block.translate(on).sql)
    finally:
        block.in_condition = outside
    return " AND ".join(f"({part})" for part in parts)


def _merged(
    left: Side, right: Side, join: exp.Join, block: Block
) -> tuple[list[tuple[exp.Expr, exp.Expr]], list[tuple[str, exp.Expr]]]:
    """USING and NATURAL: the columns that are merged, and the names in sight after it."""
    if join.method == "NATURAL":
        others = {name for name, _ in right.visible}
        wanted = [name for name, _ in left.visible if name in others]
    else:
        wanted = [folded(identifier) for identifier in join.args["using"]]
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    merged: list[tuple[str, exp.Expr]] = []
    for name in wanted:
        mine, other = _only(left, name), _only(right, name)
        if _typed(mine, block).type != _typed(other, block).type:
            raise Untranslatable(f"USING ({name}) over two types")
        pairs.append((mine, other))
        match join.side:
            case "RIGHT":
                shown = other
            case "FULL":
                shown = exp.Anonymous(this="coalesce", expressions=[mine.copy(), other.copy()])
            case _:
                shown = mine
        merged.append((name, shown))
    rest = [shown for shown in left.visible + right.visible if shown[0] not in wanted]
    return pairs, merged + rest


def _only(side: Side, name: str) -> exp.Expr:
    found = [expression for shown, expression in side.visible if shown == name]
    if len(found) != 1:
        raise Untranslatable(f"USING ({name})")
    return found[0]


def _typed(node: exp.Expr, block: Block) -> Typed:
    with block.recorded():
        return block.translate(node)


def _extend_nulls(side: str, left: Side, right: Side, block: Block) -> None:
    if side in ("LEFT", "FULL"):
        block.nullable |= right.names
    if side in ("RIGHT", "FULL"):
        block.nullable |= left.names


def note_join(
    side: str,
    on: exp.Expr | None,
    pairs: list[tuple[exp.Expr, exp.Expr]],
    left: Side,
    right: Side,
    block: Block,
) -> None:
    """What the join's equalities say of the rows that it gives."""
    equal = list(_equalities(on, block)) + [
        (mine, other)
        for mine, other in ((place_of(one), place_of(two)) for one, two in pairs)
        if mine is not None and other is not None
    ]
    if side == "":
        block.facts.equal += equal
        return
    if side == "FULL":
        return
    kept, extended = (left, right) if side == "LEFT" else (right, left)
    if len(extended.names) != 1:
        return
    (name,) = extended.names
    reached = {
        mine[1] if mine[0] == name else other[1]
        for mine, other in equal
        if (mine[0] == name) != (other[0] == name) and {mine[0], other[0]} - {name} <= kept.names
    }
    if any(key <= reached for key in block.facts.keys[name]):
        block.facts.single.append((frozenset(kept.names), name))


def note_condition(condition: exp.Expr, block: Block) -> None:
    """What WHERE says: which columns are equal, which have one value."""
    block.facts.equal += _equalities(condition, block)
    for part in _conjuncts(condition):
        block.present |= _present(part, block)
        if isinstance(part, exp.EQ):
            for one, other in ((part.this, part.expression), (part.expression, part.this)):
                place = place_of(block.resolved(one)) if isinstance(one, exp.Column) else None
                if place is not None and _is_fixed(other) and _compares_exactly(place, block):
                    block.facts.fixed.add(place)


def _present(part: exp.Expr, block: Block) -> set[Place]:
    """The columns that are not NULL where a condition is true."""
    if isinstance(part, exp.Not) and isinstance(part.this, exp.Is) and isinstance(part.this.expression, exp.Null):
        sides = [part.this.this]
    elif isinstance(part, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        sides = [part.this, part.expression]
    elif isinstance(part, exp.In | exp.Between):
        sides = [part.this]
    else:
        return set()
    places = (place_of(block.resolved(side)) for side in sides if isinstance(side, exp.Column))
    return {place for place in places if place is not None}


def _is_fixed(node: exp.Expr) -> bool:
    return not any(node.find_all(exp.Column, exp.Query, exp.AggFunc, exp.Window))


def _equalities(condition: exp.Expr | None, block: Block) -> Iterable[tuple[Place, Place]]:
    if condition is None:
        return
    for part in _conjuncts(condition):
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            left, right = place_of(block.resolved(part.this)), place_of(block.resolved(part.expression))
            if left is None or right is None:
                continue
            same_type = block.field_at(left).typed.type.name == block.field_at(right).typed.type.name
            if same_type and _compares_exactly(left, block) and _compares_exactly(right, block):
                yield left, right


def _compares_exactly(place: Place, block: Block) -> bool:
    """Equal values are the same value: not so for floats (0 and -0), padded and loosely collated texts."""
    type = block.field_at(place).typed.type
    return type.name not in ("float4", "float8", "bpchar") and type.collation.value != "loose"


def _conjuncts(condition: exp.Expr) -> Iterable[exp.Expr]:
    node = condition.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.left)
        yield from _conjuncts(node.right)
    else:
        yield node
