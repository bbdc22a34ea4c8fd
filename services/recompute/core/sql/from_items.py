"""What stands in FROM: tables, views, subqueries, VALUES, and their joins."""

from sqlglot import exp

from services.recompute.core.catalog import Column, Opaque, Relation, Table, Union, View
from services.recompute.core.dialect.joins import Side, cross, joined
from services.recompute.core.dialect.parsing import parse
from services.recompute.core.dialect.scope import DIALECT, Block, Entry, Field, Query, at, folded
from services.recompute.core.dialect.setops import settled, values
from services.recompute.core.dialect.typed import Typed, Untranslatable


def from_clause(select: exp.Select, block: Block) -> str:
    """Spark's FROM clause; the block knows the inputs from now on. Empty if there is none."""
    parameters = block.parameters_as
    first = select.args.get("from_")
    if first is None:
        return f"⟦params⟧ AS {parameters}" if parameters else ""
    groups: list[list[exp.Join]] = [[]]
    firsts: list[exp.Expr] = [first.this]
    for join in select.args.get("joins") or ():
        if _is_comma(join):
            firsts.append(join.this)
            groups.append([])
        else:
            groups[-1].append(join)
    sides: list[Side] = []
    for number, (item, joins) in enumerate(zip(firsts, groups, strict=True)):
        sides.append(_joined_group(item, joins, block, leads=number == 0))
    block.visible = [shown for side in sides for shown in side.visible]
    whole = sides[0]
    for side in sides[1:]:
        whole = cross(whole, side)
    if parameters is None:
        return whole.sql
    if whole.closed:
        return f"⟦params⟧ AS {parameters} CROSS JOIN ({whole.sql})"
    return f"⟦params⟧ AS {parameters} CROSS JOIN {whole.sql}"


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))


def _joined_group(first: exp.Expr, joins: list[exp.Join], block: Block, *, leads: bool) -> Side:
    """One element of FROM's comma list. Only where nothing but inner and left joins follow are parameters in sight."""
    closed = not leads or any(join.side in ("RIGHT", "FULL") for join in joins)
    parameters = block.parameters_as
    if closed:
        block.parameters_as = None
    try:
        side = _item(first, block)
        for join in joins:
            lateral = isinstance(join.this, exp.Lateral)
            block.visible = list(side.visible)
            side = joined(side, join, _item(join.this, block), block, lateral=lateral)
    finally:
        block.parameters_as = parameters
    side.closed = closed and bool(joins)
    return side


def _item(node: exp.Expr, block: Block) -> Side:
    if isinstance(node, exp.Table):
        side = _table(node, block)
        for join in node.args.get("joins") or ():
            block.visible = list(side.visible)
            side = joined(side, join, _item(join.this, block), block, lateral=isinstance(join.this, exp.Lateral))
            side.closed = True
        return side
    if isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table):
            return _parenthesised(node, block)
        _refuse_other_parts(node, ("this", "alias"))
        query = block.world.query(node.this, block.outer, block.ctes, False)
        return _entered(query, node, block)
    if isinstance(node, exp.Lateral):
        if not isinstance(node.this, exp.Subquery):
            raise Untranslatable("function in FROM")
        query = block.world.query(node.this.this, block, block.ctes, False)
        return _entered(query, node, block, lateral=query.correlated)
    if isinstance(node, exp.Values):
        return _entered(values(node, block), node, block)
    raise Untranslatable(f"{node.sql(dialect=DIALECT)} in FROM")


def _parenthesised(node: exp.Subquery, block: Block) -> Side:
    """(a JOIN b ON …): its own names stay in sight."""
    if node.args.get("alias"):
        raise Untranslatable("alias of a join")
    parameters, block.parameters_as = block.parameters_as, None
    try:
        side = _item(node.this, block)
        for join in node.args.get("joins") or ():
            block.visible = list(side.visible)
            side = joined(side, join, _item(join.this, block), block, lateral=False)
    finally:
        block.parameters_as = parameters
    return Side(sql=f"({side.sql})", visible=side.visible, names=side.names)


def _table(node: exp.Table, block: Block) -> Side:
    _refuse_other_parts(node, ("this", "db", "alias", "joins", "only"))
    if not isinstance(node.this, exp.Identifier):
        raise Untranslatable("function in FROM")
    schema = folded(node.args["db"]) if node.args.get("db") else ""
    name = folded(node.this)
    query = block.ctes.get(name) if not schema else None
    if query is None:
        relation = block.world.described.relations.get((schema, name))
        if relation is None:
            raise Untranslatable(f"relation {name}")
        if node.args.get("only") and not isinstance(relation, Table):
            raise Untranslatable("ONLY")
        query = rows_of(relation, block)
        schema = relation.schema
    return _entered(query, node, block, called=name, schema=schema)


def rows_of(relation: Relation, block: Block) -> Query:
    """A relation of the catalog as a query; a plain table stays a token."""
    match relation:
        case Opaque():
            raise Untranslatable(relation.reason)
        case Table():
            return _rows_of_table(relation, block)
        case Union():
            return _rows_of_union(relation, block)
        case View():
            return _rows_of_view(relation, block)


def _rows_of_table(table: Table, block: Block) -> Query:
    if table.obstacle:
        raise Untranslatable(table.obstacle)
    block.tables.add(table.oid)
    fields = tuple(
        Field(
            column.name,
            Typed(sql=f"c{position}", type=column.type),
            column.not_null or position in table.key,
            frozenset({(table.oid, position)}),
        )
        for position, column in enumerate(table.columns)
    )
    keys = (frozenset(table.key),) if table.key else ()
    token = f"⟦t:{table.oid}⟧"
    tables = frozenset({table.oid})
    if not table.row_filter:
        return Query(sql=token, fields=fields, keys=keys, tables=tables)
    inner = Block(block.world, None, {}, top=False)
    entry = Entry(name=block.world.name("r"), alias=table.name, schema=table.schema, fields=fields)
    inner.entries[entry.name] = entry
    inner.visible = [(field.name, at(entry.name, position)) for position, field in enumerate(fields)]
    inner.in_condition = True
    condition = inner.translate(parse(f"SELECT {table.row_filter}").expressions[0])
    block.tables |= inner.tables
    columns = ", ".join(f"{entry.name}.c{position}" for position in range(len(fields)))
    return Query(
        sql=f"(SELECT {columns} FROM {token} AS {entry.name} WHERE {condition.sql})",
        fields=fields,
        keys=keys,
        reads=frozenset(inner.used),
        tables=tables | inner.tables,
    )


def _rows_of_union(union: Union, block: Block) -> Query:
    """The members' rows under the parent's columns; a filter of the parent holds for each member."""
    if not union.members:
        raise Untranslatable(f"{union.name}, which has no members")
    branches: list[str] = []
    reads: set[tuple[int, int]] = set()
    of_columns: list[set[tuple[int, int]]] = [set() for _ in union.columns]
    tables: set[int] = set()
    for member in union.members:
        places = [member.position(column.name) for column in union.columns]
        filtered = _with_filter(member, union.row_filter)
        query = _rows_of_table(filtered, block)
        tables |= query.tables
        reads |= query.reads
        name = block.world.name("r")
        columns: list[str] = []
        for number, (column, place) in enumerate(zip(union.columns, places, strict=True)):
            if place is None or member.columns[place].type != column.type:
                raise Untranslatable(f"column {column.name} of {member.name}")
            of_columns[number].add((member.oid, place))
            columns.append(f"{name}.c{place} AS c{number}")
        branches.append(f"SELECT {', '.join(columns)} FROM {query.sql} AS {name}")
    return Query(
        sql=f"({' UNION ALL '.join(branches)})",
        fields=tuple(
            Field(column.name, Typed(sql=f"c{number}", type=column.type), column.not_null, frozenset(read))
            for number, (column, read) in enumerate(zip(union.columns, of_columns, strict=True))
        ),
        reads=frozenset(reads),
        tables=frozenset(tables),
    )


def _with_filter(member: Table, row_filter: str) -> Table:
    """Queried through its parent, a member's rows are bound by the parent's policies alone."""
    return Table(
        oid=member.oid, schema=member.schema, name=member.name, columns=member.columns, key=member.key,
        obstacle=member.obstacle, row_filter=row_filter,
    )  # fmt: skip


def _rows_of_view(view: View, block: Block) -> Query:
    known = block.world.views.get(view.oid)
    if known is None:
        known = block.world.query(parse(view.sql), None, {}, False)
        if len(known.fields) != len(view.columns):
            raise Untranslatable(f"view {view.name}")
        for field, column in zip(known.fields, view.columns, strict=True):
            check_type(field, column)
        block.world.views[view.oid] = known
    fields = tuple(
        Field(column.name, field.typed, field.not_null, field.reads)
        for column, field in zip(view.columns, known.fields, strict=True)
    )
    return Query(
        sql=f"({known.sql})", fields=fields, keys=known.keys, reads=known.reads, tables=known.tables,
        unstable=known.unstable,
    )  # fmt: skip


def check_type(field: Field, column: Column) -> None:
    """What we take a column for must be what PostgreSQL says it is: a net under every rule of types."""
    ours, theirs = field.typed.type, column.type
    if (ours.oid, ours.modifier) != (theirs.oid, theirs.modifier):
        said = f"{theirs.name}({theirs.modifier})" if ours.name == theirs.name else theirs.name
        mine = f"{ours.name}({ours.modifier})" if ours.name == theirs.name else ours.name
        raise Untranslatable(f"column {column.name}: PostgreSQL says type {said}, we say {mine}")


def _entered(
    query: Query, node: exp.Expr, block: Block, *, called: str = "", schema: str = "", lateral: bool = False
) -> Side:
    """A FROM item under its alias, known to the block."""
    alias = node.args.get("alias")
    fields = tuple(settled(field, block.world) for field in query.fields)
    if alias is not None:
        called, schema = (folded(alias.this), "") if alias.this else (called, schema)
        renamed = alias.args.get("columns") or ()
        fields = tuple(
            Field(folded(renamed[position]), field.typed, field.not_null, field.reads)
            if position < len(renamed)
            else field
            for position, field in enumerate(fields)
        )
    if query.unstable:
        block.unstable = True
    name = block.world.name("r")
    block.entries[name] = Entry(name=name, alias=called, schema=schema, fields=fields)
    block.facts.keys[name] = query.keys
    block.used |= query.reads
    block.tables |= query.tables
    block.correlated |= query.correlated and not lateral
    sql = query.sql if query.sql.startswith(("(", "⟦")) else f"({query.sql})"
    return Side(
        sql=f"{'LATERAL ' if lateral else ''}{sql} AS {name}",
        visible=[(field.name, at(name, position)) for position, field in enumerate(fields)],
        names={name},
    )


def _refuse_other_parts(node: exp.Expr, allowed: tuple[str, ...]) -> None:
    for part, given in node.args.items():
        if given and part not in allowed:
            raise Untranslatable(f"{part} in FROM")
