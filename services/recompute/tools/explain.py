"""How recompute would keep a query: tables, strategy, why no cheaper one, what Spark runs, the tree; needs no Spark."""

from collections.abc import Iterator, Mapping, Sequence

import psycopg
from msgspec import Struct, structs

from proto.tidewire.v1.commands_pb2 import Parameter, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres, connect
from services.recompute.core.catalog import Column, Described, Opaque, PgType, Relation, Table, Union, View
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import plan
from services.recompute.core.tree.nodes import NotUnderstood
from services.recompute.core.tree.outline import outline
from services.recompute.core.tree.reading import read_tree
from services.recompute.outbound.postgres.catalog import CatalogReader

_SESSION = """
SELECT current_user, current_schemas(false), current_setting('TimeZone'), current_setting('DateStyle'),
       current_setting('IntervalStyle'), current_setting('bytea_output'), current_setting('extra_float_digits')::int
"""
_WIDTH = 14


class Explained(Struct, frozen=True, kw_only=True):
    """A query as a subscriber would ask for it; what is None comes from the session that explains."""

    sql: str
    parameters: tuple[str, ...] = ()
    filter: str = ""
    role: str | None = None
    search_path: tuple[str, ...] | None = None
    settings: Mapping[str, str] = {}


class _Session(Struct, frozen=True):
    """The explaining session, in the order of the columns of _SESSION."""

    role: str
    search_path: list[str]
    time_zone: str
    date_style: str
    interval_style: str
    bytea_output: str
    extra_float_digits: int


def explain(postgres: Postgres, asked: Explained) -> list[str]:
    """The explanation line by line; raises Refused for a query that cannot be subscribed to."""
    with connect(postgres, application_name="tidewire explain") as connection:
        session = _session(connection)
    query = _query(session, asked)
    # The query is only described, and a login that asks for itself has nothing to gain by becoming itself: so a
    # superuser may ask where superusers may not subscribe, and a table's owner where no superuser installed Tidewire.
    asks_for_itself = query.role == session.role
    lenient = structs.replace(
        postgres, superusers_subscribe=True, weaker_isolation=postgres.weaker_isolation or asks_for_itself
    )
    with CatalogReader(lenient) as reader:
        described = reader.describe(query)
    return list(lines(query, described, plan(query.template_sql, query.filter, described, query.text_settings)))


def lines(query: Query, described: Described, chosen: Plan) -> Iterator[str]:
    """The explanation, readable by people."""
    yield _line("role", query.role)
    for relation in {relation.oid: relation for relation in described.relations.values()}.values():
        yield _line(*_relation(relation, chosen))
    for place, type_ in enumerate(chosen.parameter_types, start=1):
        yield _line(f"parameter ${place}", _type(type_))
    yield _line("result", ", ".join(f"{column.name} {_type(column.type)}" for column in described.columns))
    yield _line("certain key", ", ".join(chosen.columns[place].name for place in chosen.key_positions) or "none")
    yield _line("strategy", chosen.strategy.value)
    for strategy, reason in chosen.why_not.items():
        yield _line("", f"not {strategy}: {reason}")
    for fact, holds in _facts(chosen).items():
        if holds:
            yield _line("", fact)
    yield ""
    yield from _run(query, chosen)
    yield ""
    yield "PostgreSQL's tree, with views and policies put in:"
    yield from (f"  {line}" for line in _tree(described))


def _tree(described: Described) -> Iterator[str]:
    tree = read_tree(described.rewritten)
    return iter([f"not understood: {tree.name}"]) if isinstance(tree, NotUnderstood) else outline(tree)


def _facts(chosen: Plan) -> dict[str, bool]:
    return {
        "ordered: a change of order alone is told too": chosen.ordered,
        "there is no single right answer: it is stored, and compared by membership": not chosen.stable,
        "reads the clock: evaluated on a timer as well": chosen.reads_clock,
        "depends on what the log does not show: run on a timer as well": chosen.on_timer,
    }


def _run(query: Query, chosen: Plan) -> Iterator[str]:
    match chosen.strategy:
        case Strategy.ROW_LOCAL:
            assert chosen.row_local is not None
            yield "Spark SQL, over the rows that changed:"
            yield f"  SELECT {', '.join(chosen.row_local.outputs)}"
            yield f"  FROM ⟦t:{chosen.row_local.table}⟧"
            yield f"  WHERE {chosen.row_local.predicate or 'true'}"
        case Strategy.FULL:
            assert chosen.full is not None
            yield f"Spark SQL, {'for each tuple of parameters' if chosen.full.by_tuple else 'for all tuples at once'}:"
            yield from (f"  {line}" for line in chosen.full.sql.splitlines())
        case Strategy.SOURCE:
            yield f"PostgreSQL runs it, as {query.role}:"
            yield from (f"  {line}" for line in query.template_sql.splitlines())


def _relation(relation: Relation, chosen: Plan) -> tuple[str, str]:
    name = f"{relation.schema}.{relation.name}"
    match relation:
        case Table():
            return "table", " ".join([_table(relation, chosen), _bound(relation.row_filter)]).strip()
        case Union():
            parts = "; ".join(_table(member, chosen) for member in relation.members)
            return "table", f"{name}, made of {parts} {_bound(relation.row_filter)}".strip()
        case View():
            return "view", name
        case Opaque():
            return "not in the log", relation.reason


def _table(table: Table, chosen: Plan) -> str:
    read = next((read for read in chosen.reads if read.table == table.oid), None)
    read_columns = [] if read is None else [table.columns[place] for place in sorted(read.columns)]
    key = _names([table.columns[place] for place in table.key]) or "none"
    words = [f"{table.schema}.{table.name} (⟦t:{table.oid}⟧), key {key}"]
    if read is not None:
        words.append(f"reads {_names(read_columns) or 'no column'}")
    if table.obstacle:
        words.append(table.obstacle)
    return ", ".join(words)


def _bound(row_filter: str) -> str:
    return f"where {row_filter}, by its policies" if row_filter else ""


def _names(columns: Sequence[Column]) -> str:
    return " ".join(column.name for column in columns)


def _type(type_: PgType) -> str:
    return type_.name if type_.modifier < 0 else f"{type_.name}[{type_.modifier}]"


def _line(label: str, text: str) -> str:
    return f"{label:<{_WIDTH}}  {text}".rstrip()


def _query(session: _Session, asked: Explained) -> Query:
    return Query(
        template_sql=asked.sql,
        filter=asked.filter,
        parameters=[Parameter(value=value.encode()) for value in asked.parameters],
        role=asked.role or session.role,
        search_path=session.search_path if asked.search_path is None else asked.search_path,
        text_settings=TextSettings(
            time_zone=session.time_zone,
            date_style=session.date_style,
            interval_style=session.interval_style,
            bytea_output=session.bytea_output,
            extra_float_digits=session.extra_float_digits,
        ),
        settings_read=asked.settings,
    )


def _session(connection: psycopg.Connection) -> _Session:
    row = connection.execute(_SESSION).fetchone()
    assert row is not None
    return _Session(*row)
