"""A query whose rows are rows of one table, each decided alone."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.catalog import Relation, Table, View
from services.recompute.core.certainty import Place
from services.recompute.core.dialect.narrowing import narrowing
from services.recompute.core.dialect.parsing import parse
from services.recompute.core.dialect.scope import DIALECT, Block, Entry, Field, Origin, World, at, folded
from services.recompute.core.dialect.select_list import Item, items_of
from services.recompute.core.dialect.setops import settled
from services.recompute.core.dialect.typed import BOOL, Typed, Untranslatable
from services.recompute.core.plan import Narrowing

_PARTS = ("expressions", "from_", "where", "kind")


class Rowwise(Struct, frozen=True, kw_only=True):
    """Conditions and values over the table's own columns c0, c1 …."""

    table: Table
    conditions: tuple[str, ...]
    fields: tuple[Field, ...]
    # For each value, the table's column that it is, or -1.
    columns: tuple[int, ...]
    reads: frozenset[Origin]
    narrowing: Narrowing | None = None
    unstable: bool = False


class _RowBlock(Block):
    """A scope whose columns are expressions over the table itself."""

    def __init__(self, world: World, rows: Rowwise, alias: str, schema: str) -> None:
        super().__init__(world, None, {}, top=False)
        self.rows = rows
        name = world.name("r")
        self.entries[name] = Entry(name=name, alias=alias, schema=schema, fields=rows.fields)
        self.visible = [(field.name, at(name, position)) for position, field in enumerate(rows.fields)]

    def input_at(self, place: Place) -> Typed:
        field = self.rows.fields[place[1]]
        self.used |= field.reads
        return field.typed

    def subquery(self, node: exp.Expr) -> Typed:
        raise Untranslatable("subquery")

    def intercepted(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Window):
            raise Untranslatable("window")
        if isinstance(node, exp.Filter | exp.AggFunc | exp.WithinGroup):
            raise Untranslatable("aggregate")
        return None


def rowwise(node: exp.Expr, world: World, relations: Mapping[tuple[str, str], Relation]) -> Rowwise:
    """Raises Untranslatable with the reason where the query is of another kind."""
    while isinstance(node, exp.Subquery) and not any(given for part, given in node.args.items() if part != "this"):
        node = node.this
    if not isinstance(node, exp.Select):
        raise Untranslatable("set operation" if isinstance(node, exp.SetOperation) else type(node).__name__.upper())
    for part, given in node.args.items():
        if given and part not in _PARTS:
            raise Untranslatable("join" if part == "joins" else part.rstrip("_").upper())
    source = node.args.get("from_")
    if source is None:
        raise Untranslatable("no table")
    rows, alias, schema = _source(source.this, world, relations)
    block = _RowBlock(world, rows, alias, schema)
    conditions, narrowed = list(rows.conditions), rows.narrowing
    where = node.args.get("where")
    if where is not None:
        conditions.append(_condition(where.this, block))
        narrowed = _closer(narrowed, narrowing(where.this, block))
    items = items_of(node, block)
    fields: list[Field] = []
    for item in items:
        with block.recorded() as used:
            typed = block.translate(item.node)
        if typed.span is not None:
            raise Untranslatable("interval in a result")
        fields.append(settled(Field(item.name, typed, _not_null(item, block), frozenset(used)), world))
    return Rowwise(
        table=rows.table,
        conditions=tuple(conditions),
        fields=tuple(fields),
        columns=tuple(_column(item, block) for item in items),
        reads=rows.reads | frozenset(block.used),
        narrowing=narrowed,
        unstable=rows.unstable or block.unstable,
    )


def filtered(rows: Rowwise, sql: str, world: World) -> Rowwise:
    """Those of the rows for which a filter over the result's columns is true."""
    block = _RowBlock(world, rows, "result", "")
    condition = _condition(parse(f"SELECT ({sql})").expressions[0], block)
    return replace(rows, conditions=(*rows.conditions, condition), reads=rows.reads | frozenset(block.used))


def _closer(one: Narrowing | None, other: Narrowing | None) -> Narrowing | None:
    """The one that leaves fewer tuples."""
    return other if one is None or (other is not None and other.operator == "=") else one


def _condition(node: exp.Expr, block: Block) -> str:
    typed = block.translate(node)
    if typed.type != BOOL:
        raise Untranslatable("condition that is not boolean")
    return typed.sql


def _source(node: exp.Expr, world: World, relations: Mapping[tuple[str, str], Relation]) -> tuple[Rowwise, str, str]:
    """What stands in FROM, and by which name it is called."""
    alias = node.args.get("alias")
    called = folded(alias.this) if alias is not None and alias.this else ""
    if isinstance(node, exp.Subquery):
        rows, schema = rowwise(node.this, world, relations), ""
    elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        if any(given for part, given in node.args.items() if part not in ("this", "db", "alias", "only")):
            raise Untranslatable("join")
        written = folded(node.args["db"]) if node.args.get("db") else ""
        relation = relations.get((written, folded(node.this)))
        rows, schema = _of_relation(relation, world, relations), "" if called or relation is None else relation.schema
        called = called or folded(node.this)
    else:
        raise Untranslatable(f"{node.sql(dialect=DIALECT)} in FROM")
    renamed = (alias.args.get("columns") or ()) if alias is not None else ()
    fields = tuple(
        replace(field, name=folded(renamed[number])) if number < len(renamed) else field
        for number, field in enumerate(rows.fields)
    )
    return replace(rows, fields=fields), called, schema


def _of_relation(relation: Relation | None, world: World, relations: Mapping[tuple[str, str], Relation]) -> Rowwise:
    if isinstance(relation, Table):
        return _of_table(relation, world)
    if isinstance(relation, View):
        inside = rowwise(parse(relation.sql), world, relations)
        fields = tuple(
            replace(field, name=column.name) for field, column in zip(inside.fields, relation.columns, strict=True)
        )
        return replace(inside, fields=fields)
    raise Untranslatable("no single table" if relation is not None else "unknown relation")


def _of_table(table: Table, world: World) -> Rowwise:
    if table.obstacle:
        raise Untranslatable(table.obstacle)
    fields = tuple(
        Field(
            column.name,
            Typed(sql=f"c{position}", type=column.type),
            column.not_null or position in table.key,
            frozenset({(table.oid, position)}),
        )
        for position, column in enumerate(table.columns)
    )
    rows = Rowwise(table=table, conditions=(), fields=fields, columns=tuple(range(len(fields))), reads=frozenset())
    if not table.row_filter:
        return rows
    block = _RowBlock(world, rows, table.name, table.schema)
    condition = _condition(parse(f"SELECT ({table.row_filter})").expressions[0], block)
    return replace(rows, conditions=(condition,), reads=frozenset(block.used))


def _column(item: Item, block: _RowBlock) -> int:
    node = block.resolved(item.node)
    if isinstance(node, exp.Column) and node.table in block.entries:
        return block.rows.columns[int(node.name.removeprefix("c"))]
    return -1


def _not_null(item: Item, block: _RowBlock) -> bool:
    return _column(item, block) >= 0 and block.rows.table.columns[_column(item, block)].not_null
