"""Queries inside expressions."""

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.dialect.forms import equality_key
from services.recompute.core.dialect.numerics import as_decimal, joint_digits, rescaled
from services.recompute.core.dialect.operators import matched
from services.recompute.core.dialect.scope import DIALECT, Block, Query
from services.recompute.core.dialect.setops import settled
from services.recompute.core.dialect.typed import BOOL, Typed, Untranslatable


def subquery(node: exp.Expr, block: Block) -> Typed:
    if isinstance(node, exp.Subquery | exp.Query):
        return _scalar(node, block)
    if isinstance(node, exp.Exists):
        query = _translated(node.this, block, with_values=False)
        _refuse_row_of_nothing(query)
        if block.in_condition:
            return Typed(sql=f"EXISTS ({query.sql})", type=BOOL)
        return Typed(sql=f"(SELECT count(1) > 0 FROM ({query.sql}))", type=BOOL)
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _membership(node.this, node.args["query"], block)
    if isinstance(node, exp.EQ | exp.NEQ) and isinstance(node.expression, exp.Any | exp.All):
        is_any = isinstance(node.expression, exp.Any)
        if isinstance(node, exp.EQ) == is_any:
            found = _membership(node.this, node.expression.this, block)
            return found if is_any else Typed(sql=f"(NOT {found.sql})", type=BOOL)
    raise Untranslatable(f"subquery in {node.sql(dialect=DIALECT)}")


def _translated(node: exp.Expr, block: Block, *, with_values: bool = True) -> Query:
    while isinstance(node, exp.Subquery) and not any(node.args.get(part) for part in ("alias", "joins", "with_")):
        node = node.this
    if not isinstance(node, exp.Query):
        raise Untranslatable("ANY or ALL over an array")
    query = block.world.query(node, block, block.ctes, False)
    block.used |= query.reads
    block.tables |= query.tables
    if with_values:
        for field in query.fields:
            block.used |= field.reads
    block.unstable |= query.unstable
    return query


def _refuse_row_of_nothing(query: Query) -> None:
    """Spark joins a correlated subquery by its groups, of which there is none where no row matches."""
    if query.correlated and query.is_whole:
        raise Untranslatable("correlated subquery with an aggregate of no rows")


def _scalar(node: exp.Expr, block: Block) -> Typed:
    query = _translated(node, block)
    if len(query.fields) != 1:
        raise Untranslatable("row as a value")
    if query.is_cut:
        _refuse_row_of_nothing(query)
    typed = settled(query.fields[0], block.world).typed
    return replace(typed, sql=f"({query.sql})", is_constant=False, unstable=query.unstable)


def _membership(left: exp.Expr, right: exp.Expr, block: Block) -> Typed:
    if not block.in_condition:
        raise Untranslatable("IN (SELECT …) outside a condition")
    query = _translated(right, block)
    _refuse_row_of_nothing(query)
    lefts = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
    if len(lefts) != len(query.fields):
        raise Untranslatable("IN over different widths")
    mine: list[str] = []
    theirs: list[str] = []
    for node, field in zip(lefts, query.fields, strict=True):
        one, other = block.translate(node), settled(field, block.world).typed
        one, other = matched(one, other, block)
        if one.type.name == other.type.name == "numeric":
            one, other = as_decimal(one), as_decimal(other)
            assert one.digits and other.digits
            digits = joint_digits(one.digits, other.digits)
            one, other = (replace(side, sql=rescaled(side, digits), digits=digits) for side in (one, other))
        mine.append(equality_key(one))
        theirs.append(equality_key(other))
    shown = ", ".join(theirs)
    sql = query.sql if theirs == [field.typed.sql for field in query.fields] else f"SELECT {shown} FROM ({query.sql})"
    tested = mine[0] if len(mine) == 1 else f"({', '.join(mine)})"
    return Typed(sql=f"({tested} IN ({sql}))", type=BOOL)
