"""UNION, INTERSECT, EXCEPT, and VALUES."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.dialect.casts import unified
from services.recompute.core.dialect.numerics import numeric_text
from services.recompute.core.dialect.ordering import SortKey, arranged, check_distinct, limit_of, sort_key
from services.recompute.core.dialect.scope import DIALECT, Block, Field, NotShared, Query, World, folded
from services.recompute.core.dialect.typed import TEXT, UNKNOWN, Typed, Untranslatable

_WORDS = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}


def settled(field: Field, world: World) -> Field:
    """A literal that found no type until here is a text."""
    if field.typed.text is None and field.typed.type.oid != UNKNOWN.oid:
        return field
    return replace(field, typed=Typed(sql=field.typed.sql, type=replace(TEXT, collation=world.collation)))


def set_operation(
    node: exp.SetOperation, world: World, outer: Block | None, ctes: Mapping[str, Query], top: bool
) -> Query:
    for part, given in node.args.items():
        if given and part not in ("this", "expression", "distinct", "order", "limit", "offset", "with_"):
            raise Untranslatable(f"{part} of a set operation")
    if isinstance(node, exp.Intersect) and isinstance(node.this, exp.Union | exp.Except):
        # INTERSECT binds tighter in PostgreSQL than sqlglot reads it.
        raise Untranslatable("INTERSECT beside UNION without parentheses")
    if top and world.shared:
        raise NotShared
    word, keeps = _WORDS[type(node)], not node.args.get("distinct")
    left = world.query(node.this, outer, ctes, False)
    right = world.query(node.expression, outer, ctes, False)
    if len(left.fields) != len(right.fields):
        raise Untranslatable(f"{word} of different widths")
    pairs = list(zip(left.fields, right.fields, strict=True))
    both = [_alike(mine.typed, other.typed, world) for mine, other in pairs]
    if not (keeps and word == "UNION"):
        for mine, _ in both:
            check_distinct(mine)
    branches = (_recast(left, [mine for mine, _ in both], world), _recast(right, [other for _, other in both], world))
    sql = f"{branches[0]} {word}{' ALL' if keeps else ''} {branches[1]}"
    fields = tuple(
        Field(
            mine.name,
            replace(typed, sql=f"c{number}", is_constant=False, text=None),
            mine.not_null and other.not_null,
            mine.reads | other.reads,
        )
        for number, ((mine, other), (typed, _)) in enumerate(zip(pairs, both, strict=True))
    )
    reads = left.reads | right.reads
    if not (keeps and word == "UNION"):
        reads = reads.union(*(field.reads for field in fields))
    block = Block(world, outer, ctes, top=False)
    positions, keys = _order(node, fields, block)
    limit = limit_of(node, block)
    is_whole = frozenset(range(len(fields)))
    own = () if keeps else (is_whole,)
    total = any(key <= set(positions) for key in own)
    sorting = "".join(f", {key.sql} AS s{number}" for number, key in enumerate(keys))
    columns = ", ".join(field.typed.sql for field in fields)
    staged = f"SELECT {columns}{sorting} FROM ({sql})" if keys else sql
    is_limited = limit.count is not None or limit.skip is not None
    return Query(
        sql=arranged(staged, len(fields), keys, limit, world, total=total, top=top, bare=True),
        fields=fields,
        keys=own,
        reads=reads.union(*(fields[position].reads for position in positions)),
        tables=left.tables | right.tables,
        ordered=bool(keys),
        unstable=left.unstable or right.unstable or (is_limited and not total),
        correlated=left.correlated or right.correlated,
    )


def _alike(mine: Typed, other: Typed, world: World) -> tuple[Typed, Typed]:
    """Both sides' values as the type that PostgreSQL gives the column, held the same way."""
    left, right = unified([mine, other], world.settings)
    return _printed(left), _printed(right)


def _printed(typed: Typed) -> Typed:
    """A numeric whose scale is its own in each row travels as its text."""
    if typed.printed_scale is None:
        return typed
    return replace(typed, sql=numeric_text(typed), digits=None, printed_scale=None)


def _recast(query: Query, columns: Sequence[Typed], world: World) -> str:
    """A side of a set operation, its columns in the common types."""
    name = world.name("u")
    shown = ", ".join(f"{typed.sql} AS c{number}" for number, typed in enumerate(columns))
    return f"SELECT {shown} FROM ({query.sql}) AS {name}"


def _order(node: exp.SetOperation, fields: Sequence[Field], block: Block) -> tuple[list[int], list[SortKey]]:
    """ORDER BY after a set operation: result columns by name or number."""
    positions: list[int] = []
    keys: list[SortKey] = []
    order = node.args.get("order")
    for ordered in order.expressions if order is not None else ():
        wanted = ordered.this
        if isinstance(wanted, exp.Literal) and not wanted.is_string:
            position = int(wanted.name) - 1
        elif isinstance(wanted, exp.Column) and not wanted.table:
            named = [number for number, field in enumerate(fields) if field.name == folded(wanted.this)]
            if len(named) != 1:
                raise Untranslatable(f"ORDER BY {wanted.sql(dialect=DIALECT)}")
            (position,) = named
        else:
            raise Untranslatable(f"ORDER BY {wanted.sql(dialect=DIALECT)}")
        positions.append(position)
        keys.append(sort_key(ordered, fields[position].typed, block))
    return positions, keys


def values(node: exp.Values, block: Block) -> Query:
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    typed = [[block.translate(value) for value in row] for row in rows]
    columns: list[Typed] = []
    lines: list[list[str]] = [[] for _ in rows]
    for number, column in enumerate(zip(*typed, strict=True)):
        cells = [_printed(cell) for cell in unified(list(column), block.settings)]
        columns.append(replace(cells[0], sql=f"c{number}", is_constant=False, text=None))
        for line, cell in zip(lines, cells, strict=True):
            line.append(cell.sql)
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    sql = " UNION ALL ".join(
        f"SELECT {', '.join(f'{cell} AS c{number}' for number, cell in enumerate(line))}" for line in lines
    )
    return Query(
        sql=f"SELECT {names} FROM ({sql})",
        fields=tuple(Field(f"column{number + 1}", column) for number, column in enumerate(columns)),
    )
