"""UNION, INTERSECT, EXCEPT."""

from collections.abc import Sequence

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.casts import cast
from services.recompute.core.sql.held import alike
from services.recompute.core.sql.numerics import numeric_text
from services.recompute.core.sql.ordering import SortKey, arranged, check_distinct, limit_of, sort_key
from services.recompute.core.sql.typed import STRINGS, Typed, Untranslatable
from services.recompute.core.sql.windows import expression_of
from services.recompute.core.sql.world import Field, NotShared, Rows, World
from services.recompute.core.tree import nodes as n

_WORDS = {1: "UNION", 2: "INTERSECT", 3: "EXCEPT"}


def set_operation(query: n.Query, block: Block, *, top: bool) -> Rows:
    if top and block.world.shared:
        raise NotShared
    rows = _branch(query.setOperations, block)
    shown = [entry for entry in query.targetList if isinstance(entry, n.TargetEntry)]
    if [_place(entry) for entry in shown] != list(range(len(rows.fields))):
        raise Untranslatable("a set operation with more columns than it shows")
    by = [(clause, _place_of(clause, block)) for clause in query.sortClause]
    keys = [sort_key(clause, rows.fields[position].typed, block) for clause, position in by]
    positions = {position for _, position in by}
    limit = limit_of(query, block)
    total = any(key <= positions for key in rows.keys)
    return replace(
        rows,
        sql=arranged(_staged(rows, keys), len(rows.fields), keys, limit, block.world, total=total, top=top, bare=True),
        reads=rows.reads.union(*(rows.fields[position].reads for position in positions)),
        ordered=bool(keys),
        unstable=rows.unstable or (limit.cuts and not total),
    )


def _place(entry: n.TargetEntry) -> int:
    return entry.expr.varattno - 1 if isinstance(entry.expr, n.Var) and not entry.expr.varlevelsup else -1


def _place_of(clause: n.Expr, block: Block) -> int:
    """ORDER BY after a set operation: columns of the result."""
    found = expression_of(clause, block)
    if not isinstance(found, n.Var):
        raise Untranslatable("ORDER BY of a set operation by an expression")
    return found.varattno - 1


def _staged(rows: Rows, keys: Sequence[SortKey]) -> str:
    if not keys:
        return rows.sql
    sorting = "".join(f", {key.sql} AS s{number}" for number, key in enumerate(keys))
    return f"SELECT {', '.join(field.typed.sql for field in rows.fields)}{sorting} FROM ({rows.sql})"


def _branch(node: n.Expr | None, block: Block) -> Rows:
    from services.recompute.core.sql.select import translated

    if isinstance(node, n.SetOperationStmt):
        return _operation(node, block)
    if isinstance(node, n.RangeTblRef):
        entry = block.range_entry(node.rtindex)
        if isinstance(entry.subquery, n.Query) and not entry.securityQuals:
            return translated(entry.subquery, block.world, block, sees_outer=False)
    raise Untranslatable("a set operation that is not understood")


def _operation(node: n.SetOperationStmt, block: Block) -> Rows:
    word = _WORDS.get(node.op)
    if word is None:
        raise Untranslatable("a set operation that is not understood")
    left, right = _branch(node.larg, block), _branch(node.rarg, block)
    facts = list(zip(node.colTypes, node.colTypmods, node.colCollations, strict=True))
    if not len(facts) == len(left.fields) == len(right.fields):
        raise Untranslatable(f"{word} of different widths")
    types = [block.world.pg_type(*fact) for fact in facts]
    pairs = list(zip(left.fields, right.fields, strict=True))
    both = [
        held_for_all((mine.typed, other.typed), wanted, block)
        for (mine, other), wanted in zip(pairs, types, strict=True)
    ]
    is_bag = node.all and word == "UNION"
    if not is_bag:
        for mine, _ in both:
            check_distinct(mine)
    branches = [_recast(rows, [pair[at] for pair in both], block.world) for at, rows in enumerate((left, right))]
    fields = tuple(
        Field(
            replace(held[0], sql=f"c{number}", is_constant=False, text=None),
            mine.not_null and other.not_null,
            mine.reads | other.reads,
        )
        for number, ((mine, other), held) in enumerate(zip(pairs, both, strict=True))
    )
    reads = left.reads | right.reads
    sql = f"{branches[0]} {word}{' ALL' if node.all else ''} {branches[1]}"
    block.tables |= left.tables | right.tables
    return Rows(
        # INTERSECT binds tighter than UNION: what is inside stands in parentheses.
        sql=sql,
        fields=fields,
        keys=() if node.all else (frozenset(range(len(fields))),),
        reads=reads if is_bag else reads.union(*(field.reads for field in fields)),
        tables=left.tables | right.tables,
        unstable=left.unstable or right.unstable,
        correlated=left.correlated or right.correlated,
    )


def held_for_all(parts: Sequence[Typed], wanted: PgType, block: Block | None = None) -> list[Typed]:
    """Values of several branches as the column's type, each one held the same way and known from outside."""
    settings = block.settings if block is not None else None
    cast_ = [_as(part, wanted) if part.type.oid == wanted.oid else cast(part, wanted, settings) for part in parts]
    return [_printed(part) for part in alike(cast_, wanted)]


def _as(typed: Typed, wanted: PgType) -> Typed:
    """Of the column's type, if with another modifier; PostgreSQL keeps none where the branches differ."""
    return replace(typed, type=wanted) if wanted.name in STRINGS else typed


def _printed(typed: Typed) -> Typed:
    """A numeric whose scale is its own in each row travels as its text."""
    if typed.printed_scale is None:
        return typed
    return replace(typed, sql=numeric_text(typed), digits=None, printed_scale=None)


def _recast(rows: Rows, columns: Sequence[Typed], world: World) -> str:
    """A side of a set operation, its columns in the common types."""
    name = world.name("u")
    shown = ", ".join(f"{typed.sql} AS c{number}" for number, typed in enumerate(columns))
    return f"SELECT {shown} FROM ({rows.sql}) AS {name}"
