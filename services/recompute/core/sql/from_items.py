"""What stands in FROM: tables, subqueries (views among them), named queries, VALUES, and their joins."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from services.recompute.core.catalog import Column, Opaque, Table, Union, View
from services.recompute.core.sql.block import Block, Entry
from services.recompute.core.sql.joins import note_join
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.sql.world import Field, Rows
from services.recompute.core.tree import nodes as n

# A named query is put in wherever its name stands: two places double it at every level.
_MOST_CHARACTERS = 400_000
_RELATION, _FUNCTION = 0, 3
_KINDS = ("JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN")
_INNER, _LEFT, _FULL, _RIGHT = 0, 1, 2, 3


class Side(Struct, frozen=True):
    """Part of a FROM clause: its Spark SQL, and the inputs in it."""

    sql: str
    names: frozenset[str]
    # Holds a join that must not be taken apart.
    closed: bool = False


def from_clause(query: n.Query, block: Block) -> str:
    """Spark's FROM clause; the block knows the inputs from now on. Empty if there is none."""
    parameters = block.parameters_as
    if not isinstance(query.jointree, n.FromExpr):
        raise Untranslatable("a join tree that is not understood")
    items = query.jointree.fromlist
    if not items:
        return f"⟦params⟧ AS {parameters}" if parameters else ""
    sides = [_group(item, block, leads=number == 0) for number, item in enumerate(items)]
    whole = sides[0]
    for side in sides[1:]:
        sql = f"({side.sql})" if side.closed else side.sql
        whole = Side(f"{whole.sql} CROSS JOIN {sql}", whole.names | side.names, whole.closed)
    if parameters is None:
        return whole.sql
    return f"⟦params⟧ AS {parameters} CROSS JOIN {f'({whole.sql})' if whole.closed else whole.sql}"


def _group(item: n.Expr, block: Block, *, leads: bool) -> Side:
    """One element of FROM's list. Only where nothing but inner and left joins follow are parameters in sight."""
    closed = not leads or not _is_chain(item)
    parameters = block.parameters_as
    if closed:
        block.parameters_as = None
    try:
        side = _item(item, block)
    finally:
        block.parameters_as = parameters
    return replace(side, closed=closed and isinstance(item, n.JoinExpr))


def _is_chain(item: n.Expr) -> bool:
    """Inner and left joins whose right side is a single item."""
    while isinstance(item, n.JoinExpr):
        if item.jointype not in (_INNER, _LEFT) or isinstance(item.rarg, n.JoinExpr):
            return False
        item = item.larg
    return True


def _item(item: n.Expr, block: Block) -> Side:
    match item:
        case n.RangeTblRef(rtindex=number):
            return _entered(number, block)
        case n.JoinExpr():
            return _joined(item, block)
    raise Untranslatable("a FROM item that is not understood")


def _joined(join: n.JoinExpr, block: Block) -> Side:
    if not 0 <= join.jointype < len(_KINDS):
        raise Untranslatable("a join of another kind")
    left = _item(join.larg, block)
    right = _item(join.rarg, block)
    if right.sql.startswith("LATERAL") and join.jointype not in (_INNER, _LEFT):
        raise Untranslatable("lateral join of that kind")
    if join.jointype in (_LEFT, _FULL):
        block.nullable |= right.names
    if join.jointype in (_RIGHT, _FULL):
        block.nullable |= left.names
    names = left.names | right.names
    right_sql = f"({right.sql})" if isinstance(join.rarg, n.JoinExpr) else right.sql
    if join.quals is None:
        word = "CROSS JOIN" if join.jointype == _INNER else _KINDS[join.jointype]
        return Side(f"{left.sql} {word} {right_sql}{' ON true' if join.jointype != _INNER else ''}", names)
    condition = block.translate(join.quals)
    note_join(join.jointype, join.quals, left.names, right.names, block)
    return Side(f"{left.sql} {_KINDS[join.jointype]} {right_sql} ON {condition.sql}", names)


def _entered(number: int, block: Block) -> Side:
    """A FROM item under a name of ours, known to the block."""
    from services.recompute.core.sql.select import translated

    entry = block.range_entry(number)
    if entry.securityQuals and entry.rtekind != _RELATION:
        raise Untranslatable("a policy of what is no table")
    if entry.tablesample is not None:
        raise Untranslatable("TABLESAMPLE")
    places = None
    lateral = False
    match entry.rtekind:
        case 0:
            rows, places = _rows_of_relation(entry, number, block)
        case 1 if isinstance(entry.subquery, n.Query):
            rows = translated(entry.subquery, block.world, block, sees_outer=entry.lateral)
            lateral = entry.lateral and rows.correlated
        case 5:
            rows = values(entry, block)
        case 6:
            rows = _named(entry, block)
        case _:
            raise Untranslatable("function in FROM" if entry.rtekind == _FUNCTION else "a FROM item of another kind")
    if rows.unstable:
        block.unstable = True
    if len(rows.sql) > _MOST_CHARACTERS:
        raise Untranslatable("a query that grows too long")
    name = block.world.name("r")
    block.entries[number] = Entry(name=name, fields=rows.fields, places=places)
    block.facts.keys[name] = rows.keys
    block.used |= rows.reads
    block.tables |= rows.tables
    block.correlated |= rows.correlated and not lateral
    sql = rows.sql if rows.sql.startswith("⟦") else f"({rows.sql})"
    return Side(f"{'LATERAL ' if lateral else ''}{sql} AS {name}", frozenset({name}))


def _named(entry: n.RangeTblEntry, block: Block) -> Rows:
    """A query of WITH, put in where its name stands."""
    from services.recompute.core.sql.select import translated

    if entry.self_reference:
        raise Untranslatable("recursive query")
    owner, crossed = block.above(entry.ctelevelsup)
    name = entry.ctename or ""
    if name not in owner.ctes:
        query = next(
            (
                cte
                for cte in (owner.query.cteList if owner.query is not None else ())
                if isinstance(cte, n.CommonTableExpr) and cte.ctename == name
            ),
            None,
        )
        if query is None or not isinstance(query.ctequery, n.Query):
            raise Untranslatable("a WITH query that is not understood")
        if query.cterecursive or query.search_clause is not None or query.cycle_clause is not None:
            raise Untranslatable("recursive query")
        owner.ctes[name] = translated(query.ctequery, block.world, owner, sees_outer=False)
    rows = owner.ctes[name]
    if rows.correlated and crossed:
        raise Untranslatable("a WITH query over columns of a query further out")
    return rows


def _rows_of_relation(entry: n.RangeTblEntry, number: int, block: Block) -> tuple[Rows, dict[int, int]]:
    """A plain table stays a token."""
    relation = block.world.relation(entry.relid)
    match relation:
        case Table():
            rows = rows_of_table(relation)
        case Union():
            if not entry.inh:
                raise Untranslatable("ONLY")
            rows = _rows_of_union(relation, block)
        case Opaque():
            raise Untranslatable(relation.reason)
        case View():
            raise Untranslatable("a view that was not put in")
    block.tables |= rows.tables
    places = places_of(relation.columns)
    if not entry.securityQuals:
        return rows, places
    return _filtered(rows, places, entry, number, block), places


def places_of(columns: Sequence[Column]) -> dict[int, int]:
    return {column.number or place + 1: place for place, column in enumerate(columns)}


def _filtered(rows: Rows, places: dict[int, int], entry: n.RangeTblEntry, number: int, block: Block) -> Rows:
    """What the policies that bind the reader let through."""
    inner = Block(block.world, block.query, block.outer, sees_outer=block.sees_outer)
    name = block.world.name("r")
    inner.entries[number] = Entry(name=name, fields=rows.fields, places=places)
    with inner.as_condition():
        conditions = [inner.translate(one).sql for one in entry.securityQuals]
    block.tables |= inner.tables
    block.unstable |= inner.unstable
    columns = ", ".join(f"{name}.c{position}" for position in range(len(rows.fields)))
    sql = rows.sql if rows.sql.startswith("⟦") else f"({rows.sql})"
    return replace(
        rows,
        sql=f"SELECT {columns} FROM {sql} AS {name} WHERE {' AND '.join(f'({one})' for one in conditions)}",
        reads=rows.reads | inner.used,
        tables=rows.tables | inner.tables,
    )


def fields_of(table: Table) -> tuple[Field, ...]:
    return tuple(
        Field(
            Typed(sql=f"c{position}", type=column.type),
            column.not_null or position in table.key,
            frozenset({(table.oid, position)}),
        )
        for position, column in enumerate(table.columns)
    )


def rows_of_table(table: Table) -> Rows:
    if table.obstacle:
        raise Untranslatable(table.obstacle)
    keys = (frozenset(table.key),) if table.key else ()
    return Rows(sql=f"⟦t:{table.oid}⟧", fields=fields_of(table), keys=keys, tables=frozenset({table.oid}))


def _rows_of_union(union: Union, block: Block) -> Rows:
    """The members' rows under the parent's columns."""
    if not union.members:
        raise Untranslatable(f"{union.name}, which has no members")
    branches: list[str] = []
    of_columns: list[set[tuple[int, int]]] = [set() for _ in union.columns]
    for member in union.members:
        token = rows_of_table(member).sql
        name = block.world.name("r")
        columns: list[str] = []
        for number, column in enumerate(union.columns):
            place = member.position(column.name)
            if place is None or member.columns[place].type != column.type:
                raise Untranslatable(f"column {column.name} of {member.name}")
            of_columns[number].add((member.oid, place))
            columns.append(f"{name}.c{place} AS c{number}")
        branches.append(f"SELECT {', '.join(columns)} FROM {token} AS {name}")
    return Rows(
        sql=" UNION ALL ".join(branches),
        fields=tuple(
            Field(Typed(sql=f"c{number}", type=column.type), column.not_null, frozenset(read))
            for number, (column, read) in enumerate(zip(union.columns, of_columns, strict=True))
        ),
        tables=frozenset(member.oid for member in union.members),
    )


def values(entry: n.RangeTblEntry, block: Block) -> Rows:
    from services.recompute.core.sql.setops import held_for_all

    types = [
        block.world.pg_type(*one) for one in zip(entry.coltypes, entry.coltypmods, entry.colcollations, strict=True)
    ]
    rows = [[block.translate(value) for value in line] for line in entry.values_lists]
    columns = [held_for_all(column, wanted) for column, wanted in zip(zip(*rows, strict=True), types, strict=True)]
    lines = zip(*columns, strict=True)
    names = ", ".join(f"c{number}" for number in range(len(columns)))
    sql = " UNION ALL ".join(
        f"SELECT {', '.join(f'{cell.sql} AS c{number}' for number, cell in enumerate(line))}" for line in lines
    )
    fields = tuple(
        Field(replace(column[0], sql=f"c{number}", is_constant=False, text=None))
        for number, column in enumerate(columns)
    )
    return Rows(sql=f"SELECT {names} FROM ({sql})", fields=fields)
