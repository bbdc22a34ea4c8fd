"""The order of rows, equality of rows, LIMIT."""

from collections.abc import Sequence

from msgspec import Struct

from services.recompute.core.sql.block import Block
from services.recompute.core.sql.forms import is_one_text, ordering_key
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.sql.world import NotShared, World
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.constants import Undecodable, value_of

_ASCENDING, _DESCENDING = frozenset(proven.OPERATORS["<"]), frozenset(proven.OPERATORS[">"])
_INT8_OF_INT4 = frozenset((481, 754))
_MOST_ROWS = 2**31


class SortKey(Struct, frozen=True):
    """An element of ORDER BY: Spark SQL with its direction."""

    sql: str
    descending: bool
    nulls_first: bool

    def over(self, sql: str) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{sql} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


class Limit(Struct, frozen=True):
    """How many rows, after how many; Spark SQL of an INT, or None."""

    count: str | None = None
    skip: str | None = None

    @property
    def cuts(self) -> bool:
        return self.count is not None or self.skip is not None


def check_distinct(typed: Typed) -> None:
    """Refuses a value whose equals may print differently: which one is shown would be chance."""
    if not is_one_text(typed):
        raise Untranslatable(f"distinct values of {typed.type.name}")


def sort_key(clause: n.Expr, typed: Typed, block: Block) -> SortKey:
    if not isinstance(clause, n.SortGroupClause) or clause.sortop not in _ASCENDING | _DESCENDING:
        raise Untranslatable("an order by another operator")
    return SortKey(ordering_key(typed, block), clause.sortop in _DESCENDING, clause.nulls_first)


def limit_of(query: n.Query, block: Block) -> Limit:
    if query.limitOption and query.limitCount is not None:
        raise Untranslatable("FETCH WITH TIES")
    return Limit(_number(query.limitCount, block), _number(query.limitOffset, block))


def _number(node: n.Expr | None, block: Block) -> str | None:
    while isinstance(node, n.FuncExpr) and node.funcid in _INT8_OF_INT4:
        (node,) = node.args
    if isinstance(node, n.Const):
        return _constant(node)
    if isinstance(node, n.Param) and not node.paramkind:
        if block.world.shared:
            raise NotShared
        # NULL and negative numbers make Spark fail; PostgreSQL then has the right answer.
        return f"CAST({block.translate(node).sql} AS INT)"
    if node is not None:
        raise Untranslatable("LIMIT by an expression")
    return None


def _constant(node: n.Const) -> str | None:
    try:
        value = value_of(node)
    except Undecodable:
        value = -1
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < _MOST_ROWS:
        raise Untranslatable("LIMIT of that many rows")
    return str(value)


def arranged(
    sql: str,
    width: int,
    keys: Sequence[SortKey],
    limit: Limit,
    world: World,
    *,
    total: bool,
    top: bool,
    bare: bool,
) -> str:
    """The query in its order and cut to its limit: over columns c0 … (and q) and, for each key, s0 ….

    `bare`: there are no more columns. Ties are broken by the columns themselves, so that equal data give equal
    results. At the top of a template ord stands before the columns.
    """
    columns = [f"c{number}" for number in range(width)]
    order = [key.over(f"s{number}") for number, key in enumerate(keys)]
    ties = [f"{column} ASC NULLS LAST" for column in columns]
    whole_order = order if total else order + ties
    shared = top and world.shared
    shown = (["q"] if shared else []) + columns
    if not top and not limit.cuts:
        return f"SELECT {', '.join(columns)} FROM ({sql})" if keys or not bare else sql
    if not whole_order and limit.cuts:
        whole_order = ["true"]
    cut = "".join(
        (f" LIMIT {limit.count}" if limit.count is not None else "", f" OFFSET {limit.skip}" if limit.skip else "")
    )
    if not top:
        return f"SELECT {', '.join(columns)} FROM (SELECT * FROM ({sql}) ORDER BY {', '.join(whole_order)}{cut})"
    if not keys and not limit.cuts:
        return f"SELECT {_q(shared)}CAST(NULL AS BIGINT) AS ord{_listed(columns)} FROM ({sql})"
    if shared:
        # Bare, so that Spark sees that only the first few of each tuple are wanted.
        place = f"row_number() OVER (PARTITION BY q ORDER BY {', '.join(whole_order)})"
        placed = f"SELECT {', '.join(shown)}, {place} AS at FROM ({sql})"
        ord_sql = "CAST(at AS BIGINT)" if keys else "CAST(NULL AS BIGINT)"
        skip = int(limit.skip or 0)
        bounds = ([f"at > {skip}"] if skip else []) + (
            [f"at <= {skip + int(limit.count)}"] if limit.count is not None else []
        )
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        return f"SELECT q, {ord_sql} AS ord{_listed(columns)} FROM ({placed}){where}"
    if limit.cuts:
        sql = f"SELECT * FROM ({sql}) ORDER BY {', '.join(whole_order)}{cut}"
    place = f"CAST(row_number() OVER (ORDER BY {', '.join(whole_order)}) AS BIGINT)" if keys else "CAST(NULL AS BIGINT)"
    return f"SELECT {place} AS ord{_listed(columns)} FROM ({sql})"


def _q(shared: bool) -> str:
    return "q, " if shared else ""


def _listed(columns: Sequence[str]) -> str:
    return "".join(f", {column}" for column in columns)
