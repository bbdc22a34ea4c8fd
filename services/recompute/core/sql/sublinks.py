"""Queries inside expressions."""

from msgspec.structs import replace

from services.recompute.core.sql.block import Block
from services.recompute.core.sql.operators import compared_sides
from services.recompute.core.sql.typed import BOOL, Typed, Untranslatable
from services.recompute.core.sql.world import Rows
from services.recompute.core.tree import nodes as n

# SubLinkType
_EXISTS, _ALL, _ANY, _SCALAR = 0, 1, 2, 4


def sublink(node: n.SubLink, block: Block) -> Typed:
    if node.subLinkType == _EXISTS:
        return _exists(node, block)
    if node.subLinkType == _SCALAR:
        return _scalar(node, block)
    if node.subLinkType in (_ANY, _ALL):
        return _membership(node, block)
    raise Untranslatable("a subquery of that kind")


def _exists(node: n.SubLink, block: Block) -> Typed:
    rows = _translated(node, block, with_values=False)
    _refuse_row_of_nothing(rows)
    if block.in_condition:
        return Typed(sql=f"EXISTS ({rows.sql})", type=BOOL)
    return Typed(sql=f"(SELECT count(1) > 0 FROM ({rows.sql}))", type=BOOL)


def _translated(node: n.SubLink, block: Block, *, with_values: bool = True) -> Rows:
    from services.recompute.core.sql.select import translated

    if not isinstance(node.subselect, n.Query):
        raise Untranslatable("a subquery that is not understood")
    rows = translated(node.subselect, block.world, block)
    block.used |= rows.reads
    block.tables |= rows.tables
    if with_values:
        for field in rows.fields:
            block.used |= field.reads
    block.unstable |= rows.unstable
    return rows


def _refuse_row_of_nothing(rows: Rows) -> None:
    """Spark joins a correlated subquery by its groups, of which there is none where no row matches."""
    if rows.correlated and rows.is_whole:
        raise Untranslatable("correlated subquery with an aggregate of no rows")


def _scalar(node: n.SubLink, block: Block) -> Typed:
    rows = _translated(node, block)
    if len(rows.fields) != 1:
        raise Untranslatable("row as a value")
    if rows.is_cut:
        _refuse_row_of_nothing(rows)
    return replace(rows.fields[0].typed, sql=f"({rows.sql})", is_constant=False, text=None, unstable=rows.unstable)


def _membership(node: n.SubLink, block: Block) -> Typed:
    """= ANY and <> ALL of a subquery."""
    from services.recompute.core.sql.expressions import SYMBOLS, arguments

    tests = _tests(node.testexpr)
    wanted = "=" if node.subLinkType == _ANY else "<>"
    if not tests or any(SYMBOLS.get(test.opno) != wanted for test in tests) or (wanted == "<>" and len(tests) > 1):
        raise Untranslatable("ANY or ALL of a subquery by another operator")
    if not block.only_true_counts:
        raise Untranslatable("IN (SELECT …) that is not a condition of its own")
    rows = _translated(node, block)
    _refuse_row_of_nothing(rows)
    outside, block.columns_of_sublink = block.columns_of_sublink, tuple(field.typed for field in rows.fields)
    try:
        sides = []
        for test in tests:
            left, right = arguments(test.args, test.inputcollid, block)
            sides.append(compared_sides("=", left, right, block))
    finally:
        block.columns_of_sublink = outside
    mine, theirs = [one for one, _ in sides], [other for _, other in sides]
    shown = ", ".join(theirs)
    sql = rows.sql if theirs == [field.typed.sql for field in rows.fields] else f"SELECT {shown} FROM ({rows.sql})"
    tested = mine[0] if len(mine) == 1 else f"({', '.join(mine)})"
    return Typed(sql=f"({'NOT ' if wanted == '<>' else ''}({tested} IN ({sql})))", type=BOOL)


def _tests(node: n.Expr | None) -> list[n.OpExpr]:
    """The comparisons with the subquery's columns, one for each."""
    if type(node) is n.OpExpr:
        return [node]
    if isinstance(node, n.BoolExpr) and node.boolop == "and" and all(type(part) is n.OpExpr for part in node.args):
        return [part for part in node.args if isinstance(part, n.OpExpr)]
    return []
