"""What conditions say of the rows that they let through: equal columns, columns with one value or never NULL."""

from collections.abc import Iterable

from services.recompute.core.certainty import Place
from services.recompute.core.sql.block import Block
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.typing import type_of
from services.recompute.core.tree.walking import walk

_EQUAL = frozenset(proven.OPERATORS["="])
_COMPARING = frozenset(oid for symbol in ("=", "<>", "<", "<=", ">", ">=") for oid in proven.OPERATORS[symbol])
_INNER, _LEFT, _FULL, _RIGHT = 0, 1, 2, 3
_ANY = 2
_TEXT, _VARCHAR = 25, 1043


def note_join(kind: int, quals: n.Expr | None, left: frozenset[str], right: frozenset[str], block: Block) -> None:
    """What a join's equalities say of the rows that it gives."""
    equal = list(_equalities(quals, block))
    if kind == _INNER:
        block.facts.equal += equal
        return
    if kind == _FULL:
        return
    kept, extended = (left, right) if kind == _LEFT else (right, left)
    if len(extended) != 1:
        return
    (name,) = extended
    reached = {
        mine[1] if mine[0] == name else other[1]
        for mine, other in equal
        if (mine[0] == name) != (other[0] == name) and {mine[0], other[0]} - {name} <= kept
    }
    if any(key <= reached for key in block.facts.keys[name]):
        block.facts.single.append((kept, name))


def note_condition(condition: n.Expr, block: Block) -> None:
    """What WHERE says: which columns are equal, which have one value."""
    block.facts.equal += _equalities(condition, block)
    for part in conjuncts(condition):
        block.present |= _present(part, block)
        if isinstance(part, n.OpExpr) and part.opno in _EQUAL and len(part.args) == 2:
            for one, other in (part.args, reversed(part.args)):
                place = _place(one, block)
                if place is not None and _is_fixed(other) and _compares_exactly(place, block):
                    block.facts.fixed.add(place)


def _present(part: n.Expr, block: Block) -> set[Place]:
    """The columns that are not NULL where a condition is true."""
    sides: Iterable[n.Expr] = ()
    if isinstance(part, n.NullTest) and part.nulltesttype == 1:
        sides = (part.arg,)
    elif type(part) is n.OpExpr and part.opno in _COMPARING:
        sides = part.args
    elif isinstance(part, n.ScalarArrayOpExpr) and part.useOr:
        sides = part.args[:1]
    elif isinstance(part, n.SubLink) and part.subLinkType == _ANY and type(part.testexpr) is n.OpExpr:
        sides = part.testexpr.args[:1]
    return {place for place in (_place(side, block) for side in sides) if place is not None}


def _place(node: n.Expr, block: Block) -> Place | None:
    """A column, also one of varchar, which is compared as a text."""
    if isinstance(node, n.RelabelType) and (type_of(node.arg), node.resulttype) == (_VARCHAR, _TEXT):
        node = node.arg
    return block.place(node)


def _is_fixed(node: n.Expr) -> bool:
    return not any(isinstance(inner, n.Var | n.SubLink | n.Aggref | n.WindowFunc) for inner in walk(node))


def _equalities(condition: n.Expr | None, block: Block) -> Iterable[tuple[Place, Place]]:
    for part in conjuncts(condition) if condition is not None else ():
        if type(part) is n.OpExpr and part.opno in _EQUAL and len(part.args) == 2:
            left, right = _place(part.args[0], block), _place(part.args[1], block)
            if left is None or right is None:
                continue
            names = {block.field_at(side).typed.type.name for side in (left, right)}
            same_type = len(names) == 1 or names == {"text", "varchar"}
            if same_type and _compares_exactly(left, block) and _compares_exactly(right, block):
                yield left, right


def _compares_exactly(place: Place, block: Block) -> bool:
    """Equal values are the same value: not so for floats (0 and -0), padded and loosely collated texts."""
    type = block.field_at(place).typed.type
    return type.name not in ("float4", "float8", "bpchar") and type.collation.value != "loose"


def conjuncts(condition: n.Expr) -> Iterable[n.Expr]:
    if isinstance(condition, n.BoolExpr) and condition.boolop == "and":
        for part in condition.args:
            yield from conjuncts(part)
    else:
        yield condition
