"""A query whose rows are rows of one table, each decided alone."""

from collections.abc import Mapping

from msgspec import Struct

from services.recompute.core.catalog import Table
from services.recompute.core.certainty import Place
from services.recompute.core.plan import Narrowing
from services.recompute.core.sql.block import Block, Entry
from services.recompute.core.sql.expressions import condition
from services.recompute.core.sql.from_items import fields_of, places_of
from services.recompute.core.sql.narrowing import narrowing
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.sql.world import Field, Origin, World
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.walking import walk

_RELATION, _SUBQUERY = 0, 1
_NOUNS: tuple[tuple[str, str], ...] = (
    ("setOperations", "set operation"),
    ("cteList", "WITH"),
    ("groupClause", "GROUP"),
    ("groupingSets", "GROUP"),
    ("havingQual", "HAVING"),
    ("windowClause", "window"),
    ("distinctClause", "DISTINCT"),
    ("sortClause", "ORDER"),
    ("limitCount", "LIMIT"),
    ("limitOffset", "OFFSET"),
    ("rowMarks", "FOR UPDATE"),
    ("hasTargetSRFs", "a function of several rows in a select list"),
)


class Rowwise(Struct, frozen=True, kw_only=True):
    """Conditions and values over the table's own columns c0, c1 …."""

    table: Table
    conditions: tuple[str, ...]
    fields: tuple[Field, ...]
    # For each value, the table's column that it is, or -1.
    columns: tuple[int, ...]
    reads: frozenset[Origin] = frozenset()
    narrowing: Narrowing | None = None
    unstable: bool = False
    # The places of the table's columns by their numbers; None for a query's columns.
    places: Mapping[int, int] | None = None


class _RowBlock(Block):
    """A scope whose columns are expressions over the table itself."""

    def __init__(self, world: World, query: n.Query, number: int, rows: Rowwise) -> None:
        super().__init__(world, query, None)
        self.rows = rows
        self.entries[number] = Entry(name=world.name("r"), fields=rows.fields, places=rows.places)

    def input_at(self, place: Place) -> Typed:
        field = self.rows.fields[place[1]]
        self.used |= field.reads
        return field.typed


def rowwise(query: n.Query, world: World) -> Rowwise:
    """Raises Untranslatable with the reason where the query is of another kind."""
    for part, noun in _NOUNS:
        if getattr(query, part):
            raise Untranslatable(noun)
    number, rows = _source(query, world)
    block = _RowBlock(world, query, number, rows)
    conditions, narrowed = list(rows.conditions), rows.narrowing
    assert isinstance(query.jointree, n.FromExpr)
    where = query.jointree.quals
    if where is not None:
        conditions.append(_condition(where, block))
        narrowed = _closer(narrowed, narrowing(where, block))
    items = [entry for entry in query.targetList if isinstance(entry, n.TargetEntry) and not entry.resjunk]
    fields: list[Field] = []
    columns: list[int] = []
    for item in items:
        _refuse_other_rows(item)
        with block.recorded() as used:
            typed = block.translate(item.expr)
        if typed.span is not None:
            raise Untranslatable("interval in a result")
        place = block.place(item.expr)
        column = rows.columns[place[1]] if place is not None else -1
        not_null = column >= 0 and rows.table.columns[column].not_null
        columns.append(column)
        fields.append(Field(typed, not_null, frozenset(used)))
    return Rowwise(
        table=rows.table,
        conditions=tuple(conditions),
        fields=tuple(fields),
        columns=tuple(columns),
        reads=rows.reads | frozenset(block.used),
        narrowing=narrowed,
        unstable=rows.unstable or block.unstable,
    )


def _closer(one: Narrowing | None, other: Narrowing | None) -> Narrowing | None:
    """The one that leaves fewer tuples."""
    return other if one is None or (other is not None and other.operator == "=") else one


def _condition(node: n.Expr, block: Block) -> str:
    _refuse_other_rows(node)
    return condition(node, block).sql


def _refuse_other_rows(node: n.Expr) -> None:
    for inner in walk(node):
        match inner:
            case n.SubLink():
                raise Untranslatable("subquery")
            case n.Aggref():
                raise Untranslatable("aggregate")
            case n.WindowFunc():
                raise Untranslatable("window")


def _source(query: n.Query, world: World) -> tuple[int, Rowwise]:
    """What stands in FROM, and its number in the range table."""
    items = query.jointree.fromlist if isinstance(query.jointree, n.FromExpr) else ()
    if not items:
        raise Untranslatable("no table")
    if len(items) != 1 or not isinstance(items[0], n.RangeTblRef):
        raise Untranslatable("join")
    number = items[0].rtindex
    entry = query.rtable[number - 1]
    if not isinstance(entry, n.RangeTblEntry) or entry.tablesample is not None:
        raise Untranslatable("a FROM item of another kind")
    if entry.rtekind == _SUBQUERY and isinstance(entry.subquery, n.Query) and not entry.securityQuals:
        return number, rowwise(entry.subquery, world)
    if entry.rtekind != _RELATION:
        raise Untranslatable("no single table")
    return number, _of_table(entry, number, query, world)


def _of_table(entry: n.RangeTblEntry, number: int, query: n.Query, world: World) -> Rowwise:
    table = world.relation(entry.relid)
    if not isinstance(table, Table):
        raise Untranslatable("no single table")
    if table.obstacle:
        raise Untranslatable(table.obstacle)
    fields = fields_of(table)
    rows = Rowwise(
        table=table,
        conditions=(),
        fields=fields,
        columns=tuple(range(len(fields))),
        places=places_of(table.columns),
    )
    if not entry.securityQuals:
        return rows
    block = _RowBlock(world, query, number, rows)
    conditions = tuple(_condition(one, block) for one in entry.securityQuals)
    return Rowwise(
        table=table,
        conditions=conditions,
        fields=fields,
        columns=rows.columns,
        reads=frozenset(block.used),
        places=rows.places,
    )
