"""How a template is kept: the cheapest strategy that is exact."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Described, Opaque, Table, Union
from services.recompute.core.plan import Plan, Read, Strategy
from services.recompute.core.rendering import Unrenderable, renderer
from services.recompute.core.sql.template import full, output_columns, row_local
from services.recompute.core.sql.typed import Untranslatable
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.facts import (
    has_constant_times,
    has_one_answer,
    is_ordered,
    key_of_one_table,
    reads_system_columns,
)
from services.recompute.core.tree.gate import refusal
from services.recompute.core.tree.reading import read_tree

T = TypeVar("T")
# How the reason ends where the planner itself is at fault.
WHILE_PLANNING = " while planning"


def plan(sql: str, filter: str, described: Described, settings: TextSettings) -> Plan:
    """The plan of a template, out of its rewritten tree; what Spark does not do exactly goes to strategy `source`.

    `filter` is the subscription's own, which the tree holds around the template. The text tells only, where the tree
    is not understood, whether the result may have an order.
    """
    tree = read_tree(described.rewritten)
    if isinstance(tree, n.NotUnderstood):
        reason = f"PostgreSQL's tree is not understood ({tree.name})"
        return source_plan(sql, None, described, {"row-local": reason, "full": reason})
    if described.may_hold_moments and has_constant_times(tree):
        reason = "a constant that may be the moment at which the text was read"
        made = source_plan(sql, tree, described, {"row-local": reason, "full": reason})
        return replace(made, reads_clock=True)
    why_not = _tried(partial(_refuse_what_cannot_be_known, described, settings)) or _tried(partial(refusal, tree))
    if why_not:
        return source_plan(sql, tree, described, {"row-local": why_not, "full": why_not})
    local = _tried(partial(row_local, tree, described, settings))
    if isinstance(local, Plan):
        return local
    why = {"row-local": local}
    whole = _tried(partial(full, tree, described, settings, filtered=bool(filter), why_not=why))
    return whole if isinstance(whole, Plan) else source_plan(sql, tree, described, {**why, "full": whole})


def _tried(make: Callable[[], T]) -> T | str:
    """What is made, or why it cannot be."""
    try:
        return make()
    except Untranslatable as refused:
        return refused.reason
    except RecursionError:
        return "a query that is nested too deep"
    except Exception as error:
        # A query of a shape that nobody thought of must not stop the planner: PostgreSQL knows what it means.
        return f"{type(error).__name__}{WHILE_PLANNING}"


def _refuse_what_cannot_be_known(described: Described, settings: TextSettings) -> None:
    if described.obstacle:
        raise Untranslatable(described.obstacle)
    if not described.columns:
        raise Untranslatable("a result without columns")
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


def source_plan(sql: str, tree: n.Query | None, described: Described, why_not: dict[str, str]) -> Plan:
    """PostgreSQL runs it: whatever the tables have may matter."""
    tables: dict[int, Table] = {}
    for relation in described.relations.values():
        for table in relation.members if isinstance(relation, Union) else (relation,):
            if isinstance(table, Table):
                tables[table.oid] = table
    is_hidden = any(isinstance(relation, Opaque) for relation in described.relations.values()) or any(
        table.obstacle for table in tables.values()
    )
    has_floats = any(column.type.name in ("float4", "float8") for column in described.columns)
    return Plan(
        strategy=Strategy.SOURCE,
        why_not=why_not,
        columns=output_columns(described),
        key_positions=_key_of_source(tree, described),
        ordered=is_ordered(tree) if tree is not None else "order by" in " ".join(sql.lower().split()),
        stable=not (described.unsteady or has_floats or tree is None) and has_one_answer(tree),
        reads_clock=described.reads_clock,
        on_timer=is_hidden
        or bool(described.unsteady or described.unlogged)
        or (tree is not None and reads_system_columns(tree)),
        reads=tuple(Read(oid, frozenset(range(len(table.columns)))) for oid, table in sorted(tables.items())),
        depends_on=described.depends_on,
        calls_strangers=bool(described.strangers),
        parameter_types=described.parameter_types,
    )


def _key_of_source(tree: n.Query | None, described: Described) -> tuple[int, ...]:
    """The key of the one table that is read, if it is shown and no row can come twice."""
    found = key_of_one_table(tree) if tree is not None else None
    if found is None:
        return ()
    relation, numbers = found
    table = next((one for one in described.relations.values() if one.oid == relation), None)
    if not isinstance(table, Table) or not table.key or len(numbers) != len(described.columns):
        return ()
    wanted = [table.columns[place].number or place + 1 for place in table.key]
    return tuple(sorted(numbers.index(number) for number in wanted)) if set(wanted) <= set(numbers) else ()
