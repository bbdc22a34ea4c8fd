"""The plan of a template out of its rewritten tree: row by row, or as a whole."""

from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Described, PgType
from services.recompute.core.plan import Full, OutputColumn, Plan, Read, RowLocal, Strategy
from services.recompute.core.sql.block import Block, Entry
from services.recompute.core.sql.expressions import condition
from services.recompute.core.sql.forms import canonical_of
from services.recompute.core.sql.rowwise import Rowwise, rowwise
from services.recompute.core.sql.select import translated
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.sql.world import Field, NotShared, Origin, Rows, World
from services.recompute.core.tree import nodes as n


def row_local(tree: n.Query, described: Described, settings: TextSettings) -> Plan:
    world = World(described, settings, shared=False)
    rows = rowwise(tree, world)
    _check(rows.fields, described)
    reads = rows.reads.union(*(field.reads for field in rows.fields))
    # A row is known by its key: a new key is a new row, though nothing else of it is read.
    reads |= {(rows.table.oid, position) for position in rows.table.key}
    return Plan(
        strategy=Strategy.ROW_LOCAL,
        why_not={},
        columns=output_columns(described),
        key_positions=_key_of_rows(rows),
        stable=not rows.unstable,
        reads_clock=world.reads_clock or described.reads_clock,
        reads=reads_of({rows.table.oid}, reads),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
        row_local=RowLocal(
            table=rows.table.oid,
            predicate=" AND ".join(f"({condition})" for condition in rows.conditions),
            outputs=tuple(canonical_of(field.typed) for field in rows.fields),
            narrowing=rows.narrowing,
        ),
    )


def _key_of_rows(rows: Rowwise) -> tuple[int, ...]:
    if not rows.table.key or not set(rows.table.key) <= set(rows.columns):
        return ()
    return tuple(sorted(rows.columns.index(position) for position in rows.table.key))


def full(
    tree: n.Query, described: Described, settings: TextSettings, *, filtered: bool, why_not: dict[str, str]
) -> Plan:
    """`filtered`: the tree's own query is `SELECT * FROM (…) WHERE` a subscription's filter."""
    try:
        return _full(tree, World(described, settings, shared=bool(described.parameter_types)), filtered, why_not)
    except NotShared:
        return _full(tree, World(described, settings, shared=False), filtered, why_not)


def _full(tree: n.Query, world: World, filtered: bool, why_not: dict[str, str]) -> Plan:
    described = world.described
    rows = translated(_unfiltered(tree) if filtered else tree, world, None, top=True)
    _check(rows.fields, described)
    where, filter_reads = _filter(tree, rows, world) if filtered else ("", frozenset[Origin]())
    by_tuple = bool(described.parameter_types) and not world.shared
    q = "f.q" if world.shared else "CAST(⟦q⟧ AS INT)" if by_tuple else "CAST(0 AS INT)"
    values = ", ".join(canonical_of(_at_f(field.typed, number)) for number, field in enumerate(rows.fields))
    reads = rows.reads.union(filter_reads, *(field.reads for field in rows.fields))
    return Plan(
        strategy=Strategy.FULL,
        why_not=why_not,
        columns=output_columns(described),
        key_positions=_key_of_query(rows),
        ordered=rows.ordered,
        stable=not rows.unstable,
        reads_clock=world.reads_clock or described.reads_clock,
        reads=reads_of(rows.tables, reads),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
        full=Full(
            sql=f"SELECT {q} AS q, f.ord AS ord, array({values}) AS r FROM ({rows.sql}) AS f{where}",
            by_tuple=by_tuple,
        ),
    )


def with_operators(made: Plan, whole: Plan) -> Plan:
    """The plan with what incremental operators are made of; a query of the clock changes without any row."""
    return made if made.reads_clock or whole.reads_clock else replace(made, live=whole.full)


def _unfiltered(tree: n.Query) -> n.Query:
    """What stands inside `SELECT * FROM (…) AS result WHERE (…)`."""
    entry = tree.rtable[0] if tree.rtable else None
    if not isinstance(entry, n.RangeTblEntry) or not isinstance(entry.subquery, n.Query):
        raise Untranslatable("a filter that is not understood")
    return entry.subquery


def _filter(tree: n.Query, rows: Rows, world: World) -> tuple[str, frozenset[Origin]]:
    block = Block(world, tree, None)
    block.entries[1] = Entry(name="f", fields=rows.fields)
    if not isinstance(tree.jointree, n.FromExpr) or tree.jointree.quals is None:
        raise Untranslatable("a filter that is not understood")
    with block.as_condition():
        found = condition(tree.jointree.quals, block)
    return f" WHERE {found.sql}", frozenset(block.used)


def _check(fields: tuple[Field, ...], described: Described) -> None:
    """What we take a column for must be what PostgreSQL's own Describe says it is: a net under all else."""
    if len(fields) != len(described.columns):
        raise Untranslatable(f"result of {len(described.columns)} columns, of which we see {len(fields)}")
    for field, column in zip(fields, described.columns, strict=True):
        ours, theirs = field.typed.type, column.type
        if (ours.oid, ours.modifier) != (theirs.oid, theirs.modifier):
            raise Untranslatable(f"column {column.name}: PostgreSQL says {_said(theirs)}, we say {_said(ours)}")


def _said(type_: PgType) -> str:
    return f"{type_.name}({type_.modifier})"


def _key_of_query(rows: Rows) -> tuple[int, ...]:
    """The shortest certain key none of whose columns can be NULL; DISTINCT's whole row is none."""
    fit = [key for key in rows.keys if key and all(rows.fields[position].not_null for position in key)]
    smallest = min(fit, key=lambda key: (len(key), sorted(key)), default=frozenset[int]())
    return tuple(sorted(smallest)) if len(smallest) < len(rows.fields) else ()


def _at_f(typed: Typed, number: int) -> Typed:
    return replace(typed, sql=f"f.c{number}", is_constant=False)


def output_columns(described: Described) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(column.name, column.type) for column in described.columns)


def reads_of(tables: set[int] | frozenset[int], used: frozenset[Origin]) -> tuple[Read, ...]:
    every = tables | {oid for oid, _ in used}
    return tuple(Read(oid, frozenset(position for table, position in used if table == oid)) for oid in sorted(every))
