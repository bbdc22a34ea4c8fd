"""The order of rows, equality of rows, LIMIT."""

from collections.abc import Sequence

from msgspec import Struct
from sqlglot import exp

from services.recompute.core.dialect.forms import is_one_text, ordering_key
from services.recompute.core.dialect.scope import DIALECT, Block, NotShared, World
from services.recompute.core.dialect.typed import Typed, Untranslatable


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


def check_distinct(typed: Typed) -> None:
    """Refuses a value whose equals may print differently: which one is shown would be chance."""
    if typed.text is None and not is_one_text(typed):
        raise Untranslatable(f"distinct values of {typed.type.name}")


def sort_key(ordered: exp.Ordered, typed: Typed, block: Block) -> SortKey:
    for part, given in ordered.args.items():
        if given and part not in ("this", "desc", "nulls_first"):
            raise Untranslatable(f"{part} in ORDER BY")
    return SortKey(ordering_key(typed, block), bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def limit_of(node: exp.Expr, block: Block) -> Limit:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    count: exp.Expr | None = None
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise Untranslatable("FETCH WITH TIES")
        count = limit.args.get("count") or exp.Literal.number(1)
    elif limit is not None:
        count = limit.expression
    return Limit(_number(count, block), _number(offset.expression if offset is not None else None, block))


def _number(node: exp.Expr | None, block: Block) -> str | None:
    node = node.unnest() if node is not None else None
    if node is None or isinstance(node, exp.Null) or (isinstance(node, exp.Column) and node.name.lower() == "all"):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) < 2**31:
        return str(int(node.name))
    if isinstance(node, exp.Parameter) and not block.world.shared:
        # NULL and negative numbers make Spark fail; PostgreSQL then has the right answer.
        return f"CAST({block.translate(node).sql} AS INT)"
    if isinstance(node, exp.Parameter):
        raise NotShared
    raise Untranslatable(f"LIMIT {node.sql(dialect=DIALECT)}")


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
    is_limited = limit.count is not None or limit.skip is not None
    shown = (["q"] if shared else []) + columns
    if not top and not is_limited:
        return f"SELECT {', '.join(columns)} FROM ({sql})" if keys or not bare else sql
    if not whole_order and is_limited:
        whole_order = ["true"]
    cut = "".join(
        (f" LIMIT {limit.count}" if limit.count is not None else "", f" OFFSET {limit.skip}" if limit.skip else "")
    )
    if not top:
        return f"SELECT {', '.join(columns)} FROM (SELECT * FROM ({sql}) ORDER BY {', '.join(whole_order)}{cut})"
    if not keys and not is_limited:
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
    if is_limited:
        sql = f"SELECT * FROM ({sql}) ORDER BY {', '.join(whole_order)}{cut}"
    place = f"CAST(row_number() OVER (ORDER BY {', '.join(whole_order)}) AS BIGINT)" if keys else "CAST(NULL AS BIGINT)"
    return f"SELECT {place} AS ord{_listed(columns)} FROM ({sql})"


def _q(shared: bool) -> str:
    return "q, " if shared else ""


def _listed(columns: Sequence[str]) -> str:
    return "".join(f", {column}" for column in columns)
