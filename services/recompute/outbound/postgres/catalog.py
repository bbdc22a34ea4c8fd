"""What PostgreSQL says of a query: asked under the subscriber's role, without running it."""

from collections.abc import Sequence
from types import TracebackType

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result
from sqlglot import exp

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.parsed import Parsed, set_local
from services.chassis.postgres import Postgres, failure
from services.chassis.trust import OURS, examine, functions_of
from services.recompute.core.catalog import Column, Described, PgType, Relation
from services.recompute.core.dependence import depends
from services.recompute.core.dialect.parsing import parse
from services.recompute.core.dialect.typed import Untranslatable
from services.recompute.core.refusal import Refused
from services.recompute.core.rendering import ZONE_PROBE
from services.recompute.inbound.catalog_relations import Survey
from services.recompute.inbound.catalog_relations import statement as catalog_statement
from services.recompute.inbound.catalog_values import normalised
from services.recompute.inbound.subscriber import (
    in_place_of,
    opened,
    quoted,
    statement,
    types_of,
    unreachable,
    values_of,
    words_of,
)

STATEMENT_TIMEOUT_MS = 10_000
# A DDL command may hold a table for a while.
ATTEMPTS = 3
_PASSING = ("57014", "55P03", "40001", "40P01")
# Settings that every session has from the server alone.
_SERVER_WIDE = """
SELECT name FROM pg_catalog.pg_settings WHERE lower(name) = ANY (%s) AND context IN ('internal', 'postmaster', 'sighup')
"""
_OF_THE_QUERY = frozenset(
    ("timezone", "datestyle", "intervalstyle", "bytea_output", "extra_float_digits", "search_path", "role")
)


class CatalogReader:
    """One connection, used by one thread; the caller opens and closes it by `with`."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: psycopg.Connection | None = None

    def __enter__(self) -> "CatalogReader":
        self._connection, _ = opened(self._postgres)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def describe(self, query: Query) -> Described:
        """Raises Refused for what must not be subscribed to, PostgresUnreachable if nobody answers."""
        assert self._connection is not None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with in_place_of(query, self._connection, statement_timeout_ms=STATEMENT_TIMEOUT_MS):
                    return _described(self._connection, query, self._postgres.trusted_owners)
            except psycopg.Error as error:
                if unreachable(error):
                    raise failure(self._postgres, str(error)) from error
                if error.sqlstate not in _PASSING or attempt == ATTEMPTS:
                    raise Refused(*words_of(error)) from error
        raise AssertionError("the last attempt returns or raises")

    def rights(self) -> str:
        """A mark of all rights, policies and roles of the database: while it is the same, none of them changed."""
        assert self._connection is not None
        try:
            row = self._connection.execute(catalog_statement("rights")).fetchone()
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error
        assert row is not None
        return str(row[0])

    def zone_offsets(self, name: str) -> list[int]:
        """What PostgreSQL's own table says of a time zone: its offsets in seconds, as ZONE_PROBE asks for them."""
        assert self._connection is not None
        try:
            with self._connection.transaction():
                set_local(self._connection, {"TimeZone": name})
                row = self._connection.execute(ZONE_PROBE).fetchone()
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error
        assert row is not None
        return list(row[0])

    def normalised(
        self, types: Sequence[PgType], tuples: Sequence[ResultRow], settings: TextSettings
    ) -> list[ResultRow | Refused]:
        """Values as a subscriber writes them, in the text that the log has; Refused where one is none of its type."""
        assert self._connection is not None
        try:
            return normalised(self._connection, types, tuples, settings)
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error


def _described(connection: psycopg.Connection, query: Query, trusted_owners: tuple[str, ...]) -> Described:
    parsed = examine(connection, statement(query), types_of(query), trusted_owners=trusted_owners)
    unplanned = _refuse_without_rights(connection, query, parsed)
    written = _written(connection, query)
    set_local(connection, OURS)
    _refuse_unknown_settings(connection, query, parsed)
    role_oid = _role_oid(connection, query.role)
    survey = Survey(connection, role=query.role, role_oid=role_oid, settings=_lowered(query))
    relations = survey.add(parsed.relations)
    _refuse_other_meaning(query, written, relations)
    # What only policies read.
    survey.add(parsed.rewritten_relations - survey.oids)
    named = {key: relations[oid] for key, oid in written.items() if oid in relations}
    found = depends(statement(query), functions_of(connection, parsed), parsed.value_functions)
    others = connection.execute(
        catalog_statement("strangers"), {"operators": list(parsed.operators), "objects": list(parsed.user_objects)}
    ).fetchall()
    types = survey.types([*parsed.parameter_types, *(column.type_oid for column in parsed.columns)])
    return Described(
        relations={**survey.relations, **named},
        parameter_types=tuple(types[oid] for oid in parsed.parameter_types),
        columns=tuple(
            Column(column.name, _modified(types[column.type_oid], column.type_modifier)) for column in parsed.columns
        ),
        strangers=found.strangers | {name for (name,) in others},
        depends_on=parsed.user_objects | survey.oids | {role_oid},
        obstacle=survey.obstacle or unplanned,
        collation=survey.collation,
        reads_clock=found.reads_clock,
        unsteady=found.unsteady,
        unlogged=found.unlogged,
    )


def _refuse_without_rights(connection: psycopg.Connection, query: Query, parsed: Parsed) -> str:
    """EXPLAIN checks rights, of the subscriber and of the owners of views; it says why if it cannot plan the query."""
    connection.execute("SAVEPOINT explaining")
    explained = connection.pgconn.exec_params(
        f"EXPLAIN (COSTS OFF) {statement(query)}".encode(),
        [None] * len(parsed.parameter_types),
        list(parsed.parameter_types),
    )
    if explained.status == pq.ExecStatus.TUPLES_OK:
        return ""
    error = error_from_result(explained)
    sqlstate, words = words_of(error)
    # A constant that cannot be computed is an answer too, which PostgreSQL gives when it runs the query.
    if sqlstate[:2] != "22":
        raise error
    connection.execute("ROLLBACK TO SAVEPOINT explaining")
    return f"PostgreSQL does not plan it: {words}"


def _written(connection: psycopg.Connection, query: Query) -> dict[tuple[str, str], int]:
    """The relation names as the query writes them, and what they mean to somebody with its search path."""
    try:
        tree = parse(statement(query))
    except Untranslatable:
        return {}
    names = {(_folded(table.args.get("db")), _folded(table.this)) for table in tree.find_all(exp.Table)}
    found: dict[tuple[str, str], int] = {}
    for schema, name in names:
        if name:
            full = f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)
            row = connection.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", [full]).fetchone()
            if row is not None and row[0] is not None:
                found[schema, name] = row[0]
    return found


def _refuse_other_meaning(query: Query, written: dict[tuple[str, str], int], relations: dict[int, Relation]) -> None:
    """A name may have come to mean another relation since the subscriber used it."""
    for known in query.names:
        now = written.get((known.written_schema, known.written_name))
        if now is not None and now in relations and now != known.oid:
            raise Refused("42P01", f'relation "{known.written_name}" does not exist')


def _refuse_unknown_settings(connection: psycopg.Connection, query: Query, parsed: Parsed) -> None:
    """The subscriber's settings are known as far as the query brings them along; ours must not stand for them."""
    asked = parsed.settings_read(values_of(query)) - _OF_THE_QUERY - _lowered(query).keys()
    if not asked:
        return
    rows = connection.execute(_SERVER_WIDE, [list(asked)]).fetchall()
    unknown = asked - {name.lower() for (name,) in rows}
    if unknown:
        raise Refused("0A000", f"the value of setting {min(unknown)} in the subscriber's session is not known")


def _role_oid(connection: psycopg.Connection, role: str) -> int:
    row = connection.execute("SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = %s", [role]).fetchone()
    assert row is not None
    return int(row[0])


def _lowered(query: Query) -> dict[str, str]:
    return {name.lower(): value for name, value in query.settings_read.items()}


def _modified(type_: PgType, modifier: int) -> PgType:
    return PgType(type_.oid, type_.name, modifier, type_.kind, type_.collation)


def _folded(identifier: object) -> str:
    """An identifier as PostgreSQL reads it: folded to lower case unless quoted."""
    if not isinstance(identifier, exp.Identifier):
        return ""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()
