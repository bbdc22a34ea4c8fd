"""Which comparison of a row with a parameter can be looked up among many tuples instead of being tried on each."""

import re
from collections.abc import Iterator

from services.recompute.core.plan import Narrowing
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.expressions import SYMBOLS, arguments
from services.recompute.core.sql.joins import conjuncts
from services.recompute.core.sql.operators import compared_sides
from services.recompute.core.sql.typed import FLOATS
from services.recompute.core.tree import nodes as n

# Seen from the other side.
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COLUMN = re.compile(r"\bc\d+\b")
# The row's side is computed at every step of a search.
_LONG = 240


def narrowing(condition: n.Expr, block: Block) -> Narrowing | None:
    """A comparison that holds wherever the condition holds; an equality if there is one."""
    found = [one for part in conjuncts(condition) for one in _comparison(part, block)]
    return next((one for one in found if one.operator == "="), found[0] if found else None)


def _comparison(node: n.Expr, block: Block) -> Iterator[Narrowing]:
    """The condition has been translated before, so each part of it can be."""
    if type(node) is not n.OpExpr or SYMBOLS.get(node.opno) not in _MIRRORED or len(node.args) != 2:
        return
    operator = SYMBOLS[node.opno]
    left, right = arguments(node.args, node.inputcollid, block)
    if any(side.type.name in FLOATS for side in (left, right)):
        return
    one, other = compared_sides(operator, left, right, block)
    if _is_of_row(one) and _is_of_tuple(other):
        yield Narrowing(operator, one, other)
    elif _is_of_tuple(one) and _is_of_row(other):
        yield Narrowing(_MIRRORED[operator], other, one)


def _is_of_row(sql: str) -> bool:
    return bool(_COLUMN.search(sql)) and "⟦" not in sql and len(sql) <= _LONG


def _is_of_tuple(sql: str) -> bool:
    return "⟦p" in sql and "⟦now⟧" not in sql and not _COLUMN.search(sql)
