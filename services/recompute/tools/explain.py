"""`python -m services.recompute explain "SELECT …"`: the tables, the strategy, why no cheaper one, what Spark runs."""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import psycopg
from msgspec import Struct

from proto.tidewire.v1.commands_pb2 import Parameter, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.chassis.settings import BadSetting, load
from services.recompute.core.catalog import Column, Described, Opaque, PgType, Relation, Table, Union, View
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import plan
from services.recompute.core.refusal import Refused
from services.recompute.inbound.catalog import CatalogReader

_SESSION = """
SELECT current_user, current_schemas(false), current_setting('TimeZone'), current_setting('DateStyle'),
       current_setting('IntervalStyle'), current_setting('bytea_output'), current_setting('extra_float_digits')::int
"""
_WIDTH = 14


class PostgresOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    arguments = _parser().parse_args(argv)
    try:
        postgres = Postgres(dsn=arguments.dsn) if arguments.dsn else load(PostgresOnly, environ).postgres
        query = _query(postgres, arguments)
        with CatalogReader(postgres) as reader:
            described = reader.describe(query)
    except Refused as refused:
        print(f"refused: {refused.message} (SQLSTATE {refused.sqlstate})")
        return 1
    except (BadSetting, ValueError, PostgresUnreachable, PostgresRefused) as error:
        print(f"recompute: {error}", file=sys.stderr)
        return 2
    chosen = plan(query.template_sql, query.filter, described, query.text_settings)
    for line in lines(query, described, chosen):
        print(line)
    return 0


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


def _query(postgres: Postgres, arguments: argparse.Namespace) -> Query:
    """As a subscriber with the settings of our own session would ask for it."""
    with connect(postgres, application_name="tidewire explain") as connection:
        row = _session(connection)
    role, schemas, zone, date_style, interval_style, bytea_output, digits = row
    return Query(
        template_sql=arguments.sql,
        filter=arguments.filter,
        parameters=[Parameter(value=value.encode()) for value in arguments.param],
        role=arguments.role or role,
        search_path=arguments.search_path.split(",") if arguments.search_path else schemas,
        text_settings=TextSettings(
            time_zone=zone,
            date_style=date_style,
            interval_style=interval_style,
            bytea_output=bytea_output,
            extra_float_digits=digits,
        ),
        settings_read=dict(pair.split("=", 1) for pair in arguments.setting),
    )


def _session(connection: psycopg.Connection) -> tuple:  # type: ignore[type-arg]
    row = connection.execute(_SESSION).fetchone()
    assert row is not None
    return row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m services.recompute explain",
        description="Says how a query would be kept: tables, strategy, why no cheaper one, and what Spark runs.",
    )
    parser.add_argument("sql", help="the query, with $1 … for parameters")
    parser.add_argument("--param", action="append", default=[], metavar="VALUE", help="the value of the next parameter")
    parser.add_argument("--filter", default="", help="a condition over the result's columns")
    parser.add_argument("--role", help="the subscriber's role (default: our own)")
    parser.add_argument("--search-path", metavar="SCHEMA,…", help="the subscriber's search path (default: our own)")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME=VALUE", help="a setting of the subscriber's session"
    )
    parser.add_argument("--dsn", help="connection string (default: TIDEWIRE_POSTGRES_DSN)")
    return parser
