"""How a template is kept: the cheapest strategy that is exact."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace
from sqlglot import exp

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Described, Opaque, Table, Union
from services.recompute.core.dialect.forms import canonical_of
from services.recompute.core.dialect.from_items import check_type
from services.recompute.core.dialect.parsing import parse
from services.recompute.core.dialect.scope import Block, Entry, Field, NotShared, Origin, Query, World, at, folded
from services.recompute.core.dialect.select import translated
from services.recompute.core.dialect.select_rowwise import Rowwise, filtered, rowwise
from services.recompute.core.dialect.setops import settled
from services.recompute.core.dialect.typed import BOOL, Typed, Untranslatable
from services.recompute.core.plan import Full, OutputColumn, Plan, Read, RowLocal, Strategy
from services.recompute.core.rendering import Unrenderable, renderer

T = TypeVar("T")


def plan(sql: str, filter: str, described: Described, settings: TextSettings) -> Plan:
    """The plan of a template with its filter; what Spark does not do exactly goes to strategy `source`."""
    tree = _tried(partial(parse, sql))
    if isinstance(tree, str):
        return _source(sql, None, described, {"row-local": tree, "full": tree})
    refusal = _tried(partial(_refuse_what_cannot_be_known, described, settings))
    if refusal is not None:
        return _source(sql, tree, described, {"row-local": refusal, "full": refusal})
    row_local = _tried(partial(_row_local, tree, filter, described, settings))
    if isinstance(row_local, Plan):
        return row_local
    full = _tried(partial(_full, tree, filter, described, settings, {"row-local": row_local}))
    if isinstance(full, Plan):
        return full
    return _source(sql, tree, described, {"row-local": row_local, "full": full})


def _tried(make: Callable[[], T]) -> T | str:
    """What is made, or why it cannot be."""
    try:
        return make()
    except Untranslatable as refusal:
        return refusal.reason
    except Exception as error:
        # A query of a shape that nobody thought of must not stop the planner: PostgreSQL knows what it means.
        return f"{type(error).__name__} while planning"


def _refuse_what_cannot_be_known(described: Described, settings: TextSettings) -> None:
    if described.obstacle:
        raise Untranslatable(described.obstacle)
    for stranger in sorted(described.strangers):
        raise Untranslatable(f"{stranger}, which is not PostgreSQL's own")
    for function in (described.unsteady, described.unlogged):
        if function:
            raise Untranslatable(f"function {function}")
    for column in described.columns:
        try:
            renderer(column.type, settings)
        except Unrenderable as error:
            raise Untranslatable(f"text of column {column.name}: {error}") from error


def _world(described: Described, settings: TextSettings, *, shared: bool) -> World:
    world = World(described, settings, shared=shared, query=_unset, collation=described.collation)
    world.query = partial(translated, world=world)
    return world


def _unset(*_: object) -> Query:
    raise AssertionError


def _row_local(tree: exp.Expr, filter: str, described: Described, settings: TextSettings) -> Plan:
    world = _world(described, settings, shared=False)
    rows = rowwise(tree, world, described.relations)
    rows = _checked_rows(rows, described)
    if filter:
        rows = filtered(rows, filter, world)
    reads = rows.reads.union(*(field.reads for field in rows.fields))
    # A row is known by its key: a new key is a new row, though nothing else of it is read.
    reads |= {(rows.table.oid, position) for position in rows.table.key}
    return Plan(
        strategy=Strategy.ROW_LOCAL,
        why_not={},
        columns=_columns(described),
        key_positions=_key_of_rows(rows),
        stable=not rows.unstable,
        reads_clock=world.reads_clock or described.reads_clock,
        reads=_reads({rows.table.oid}, reads),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
        row_local=RowLocal(
            table=rows.table.oid,
            predicate=" AND ".join(f"({condition})" for condition in rows.conditions),
            outputs=tuple(canonical_of(field.typed) for field in rows.fields),
            narrowing=rows.narrowing,
        ),
    )


def _checked_rows(rows: Rowwise, described: Described) -> Rowwise:
    return replace(rows, fields=_checked(rows.fields, described))


def _checked(fields: tuple[Field, ...], described: Described) -> tuple[Field, ...]:
    """The result's columns under PostgreSQL's names, once it agrees on their types."""
    if len(fields) != len(described.columns):
        raise Untranslatable(f"result of {len(described.columns)} columns, of which we see {len(fields)}")
    for field, column in zip(fields, described.columns, strict=True):
        check_type(field, column)
    return tuple(
        Field(column.name, field.typed, field.not_null, field.reads)
        for field, column in zip(fields, described.columns, strict=True)
    )


def _key_of_rows(rows: Rowwise) -> tuple[int, ...]:
    if not rows.table.key or not set(rows.table.key) <= set(rows.columns):
        return ()
    return tuple(sorted(rows.columns.index(position) for position in rows.table.key))


def _full(tree: exp.Expr, filter: str, described: Described, settings: TextSettings, why_not: dict[str, str]) -> Plan:
    world = _world(described, settings, shared=bool(described.parameter_types))
    try:
        query = world.query(tree, None, {}, True)
    except NotShared:
        world = _world(described, settings, shared=False)
        query = world.query(tree, None, {}, True)
    fields = _checked(tuple(settled(field, world) for field in query.fields), described)
    where, filter_reads = _filter(filter, fields, world)
    by_tuple = bool(described.parameter_types) and not world.shared
    q = "f.q" if world.shared else "CAST(⟦q⟧ AS INT)" if by_tuple else "CAST(0 AS INT)"
    values = ", ".join(canonical_of(_at_f(field.typed, number)) for number, field in enumerate(fields))
    row = f"array({values})" if values else "CAST(array() AS ARRAY<STRING>)"
    reads = query.reads.union(filter_reads, *(field.reads for field in fields))
    return Plan(
        strategy=Strategy.FULL,
        why_not=why_not,
        columns=_columns(described),
        key_positions=_key_of_query(query, fields),
        ordered=query.ordered,
        stable=not query.unstable,
        reads_clock=world.reads_clock or described.reads_clock,
        reads=_reads(query.tables, reads),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
        full=Full(sql=f"SELECT {q} AS q, f.ord AS ord, {row} AS r FROM ({query.sql}) AS f{where}", by_tuple=by_tuple),
    )


def _key_of_query(query: Query, fields: tuple[Field, ...]) -> tuple[int, ...]:
    """The shortest certain key none of whose columns can be NULL; DISTINCT's whole row is none."""
    fit = [key for key in query.keys if key and all(fields[position].not_null for position in key)]
    smallest = min(fit, key=lambda key: (len(key), sorted(key)), default=frozenset[int]())
    return tuple(sorted(smallest)) if len(smallest) < len(fields) else ()


def _filter(sql: str, fields: tuple[Field, ...], world: World) -> tuple[str, frozenset[Origin]]:
    """The filter as a WHERE over the whole result."""
    if not sql:
        return "", frozenset()
    block = Block(world, None, {}, top=False)
    block.entries["f"] = Entry(name="f", alias="result", schema="", fields=fields)
    block.visible = [(field.name, at("f", position)) for position, field in enumerate(fields)]
    block.in_condition = True
    condition = block.translate(parse(f"SELECT ({sql})").expressions[0])
    if condition.type != BOOL:
        raise Untranslatable("filter that is not boolean")
    return f" WHERE {condition.sql}", frozenset(block.used)


def _at_f(typed: Typed, number: int) -> Typed:
    return replace(typed, sql=f"f.c{number}", is_constant=False)


def _columns(described: Described) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(column.name, column.type) for column in described.columns)


def _reads(tables: set[int] | frozenset[int], used: frozenset[Origin]) -> tuple[Read, ...]:
    every = tables | {oid for oid, _ in used}
    return tuple(Read(oid, frozenset(position for table, position in used if table == oid)) for oid in sorted(every))


def _source(sql: str, tree: exp.Expr | None, described: Described, why_not: dict[str, str]) -> Plan:
    """PostgreSQL runs it: whatever the tables have may matter."""
    tables: dict[int, Table] = {}
    for relation in described.relations.values():
        for table in relation.members if isinstance(relation, Union) else (relation,):
            if isinstance(table, Table):
                tables[table.oid] = table
    is_hidden = any(isinstance(relation, Opaque) for relation in described.relations.values()) or any(
        table.obstacle for table in tables.values()
    )
    return Plan(
        strategy=Strategy.SOURCE,
        why_not=why_not,
        columns=_columns(described),
        key_positions=_key_of_source(tree, described),
        ordered=_is_ordered(sql, tree),
        stable=_is_stable(tree, described),
        reads_clock=described.reads_clock,
        on_timer=is_hidden or bool(described.unsteady or described.unlogged),
        reads=tuple(Read(oid, frozenset(range(len(table.columns)))) for oid, table in sorted(tables.items())),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
    )


# Beside columns, literals and operators: what gives one value for each row, whatever it means.
_ONE_VALUE = (exp.Cast, exp.Case, exp.JSONExtract, exp.JSONExtractScalar, exp.And, exp.Or, exp.If)


def _key_of_source(tree: exp.Expr | None, described: Described) -> tuple[int, ...]:
    """The key of the one table that is read, if it is shown and no row can come twice."""
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    if tree is None or source is None or not isinstance(source.this, exp.Table):
        return ()
    name, schema = source.this.this, source.this.args.get("db")
    if not isinstance(name, exp.Identifier):
        return ()
    if any(tree.args.get(part) for part in ("joins", "group", "distinct", "with_", "laterals")):
        return ()
    if any(
        isinstance(node, exp.Func) and not isinstance(node, _ONE_VALUE)
        for item in tree.expressions
        for node in item.walk()
    ):
        return ()
    table = described.relations.get((folded(schema) if schema else "", folded(name)))
    renamed = source.this.args.get("alias")
    if not isinstance(table, Table) or (renamed is not None and renamed.args.get("columns")) or not table.key:
        return ()
    shown: list[str | None] = []
    for item in tree.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            shown += [column.name for column in table.columns]
        else:
            inside = item.unalias()
            shown.append(folded(inside.this) if isinstance(inside, exp.Column) else None)
    wanted = [table.columns[position].name for position in table.key]
    if len(shown) != len(described.columns) or not set(wanted) <= set(shown):
        return ()
    return tuple(sorted(shown.index(name) for name in wanted))


def _is_ordered(sql: str, tree: exp.Expr | None) -> bool:
    if tree is None:
        return "order by" in " ".join(sql.lower().split())
    while isinstance(tree, exp.Subquery):
        if tree.args.get("order"):
            return True
        tree = tree.this
    return bool(tree.args.get("order"))


_LOOSE_ENDS = (exp.Limit, exp.Fetch, exp.Offset, exp.Window, exp.GroupConcat, exp.ArrayAgg, exp.Sum, exp.Avg)


def _is_stable(tree: exp.Expr | None, described: Described) -> bool:
    """Whether PostgreSQL must answer the same for the same rows; not looked at closely."""
    if described.unsteady or tree is None:
        return False
    has_floats = any(column.type.name in ("float4", "float8") for column in described.columns)
    return not has_floats and tree.find(*_LOOSE_ENDS, exp.Anonymous) is None and not _picks(tree)


def _picks(tree: exp.Expr) -> bool:
    return any(distinct.args.get("on") for distinct in tree.find_all(exp.Distinct))
