"""Which comparison of a row with a parameter can be looked up among many tuples instead of being tried on each."""

import re
from collections.abc import Iterator

from sqlglot import exp

from services.recompute.core.dialect.operators import compared_sides
from services.recompute.core.dialect.scope import Block
from services.recompute.core.dialect.typed import FLOATS
from services.recompute.core.plan import Narrowing

# Seen from the other side.
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_COLUMN = re.compile(r"\bc\d+\b")
# The row's side is computed at every step of a search.
_LONG = 240


def narrowing(condition: exp.Expr, block: Block) -> Narrowing | None:
    """A comparison that holds wherever the condition holds; an equality if there is one."""
    found = list(_comparisons(condition, block))
    return next((one for one in found if one.operator == "="), found[0] if found else None)


def _comparisons(node: exp.Expr, block: Block) -> Iterator[Narrowing]:
    """The condition has been translated before, so each part of it can be."""
    if isinstance(node, exp.Paren):
        yield from _comparisons(node.this, block)
    elif isinstance(node, exp.And):
        yield from _comparisons(node.this, block)
        yield from _comparisons(node.expression, block)
    elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
        yield from _comparison(">=", node.this, node.args["low"], block)
        yield from _comparison("<=", node.this, node.args["high"], block)
    elif type(node) in _OPERATORS:
        yield from _comparison(_OPERATORS[type(node)], node.this, node.expression, block)


def _comparison(operator: str, left: exp.Expr, right: exp.Expr, block: Block) -> Iterator[Narrowing]:
    if any(isinstance(side, exp.Any | exp.All | exp.Tuple | exp.Anonymous) for side in (left, right)):
        return
    typed = block.translate(left), block.translate(right)
    if any(side.type.name in FLOATS for side in typed):
        return
    one, other = compared_sides(operator, *typed, block)
    if _is_of_row(one) and _is_of_tuple(other):
        yield Narrowing(operator, one, other)
    elif _is_of_tuple(one) and _is_of_row(other):
        yield Narrowing(_MIRRORED[operator], other, one)


def _is_of_row(sql: str) -> bool:
    return bool(_COLUMN.search(sql)) and "⟦" not in sql and len(sql) <= _LONG


def _is_of_tuple(sql: str) -> bool:
    return "⟦p" in sql and "⟦now⟧" not in sql and not _COLUMN.search(sql)
