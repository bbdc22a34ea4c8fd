"""Has PostgreSQL describe a query under the subscriber's role, without running it."""

from collections.abc import Sequence
from types import TracebackType

import psycopg

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres, failure
from services.recompute.core.catalog import Column, Described, Named, PgType, Relation
from services.recompute.core.dependence import depends, may_hold_moments
from services.recompute.core.rendering import ZONE_PROBE
from services.recompute.core.tree.facts import numbers_of
from services.recompute.core.tree.nodes import NotUnderstood
from services.recompute.core.tree.reading import read_tree
from services.recompute.outbound.postgres.catalog_relations import Survey
from services.recompute.outbound.postgres.catalog_relations import statement as catalog_statement
from services.recompute.outbound.postgres.catalog_rights import refuse_missing_rights
from services.recompute.outbound.postgres.catalog_values import normalised
from services.recompute.outbound.postgres.subscriber import (
    APPLICATION_NAME,
    can_be_set,
    in_place_of,
    quoted,
    statement,
    types_of,
    unreachable,
    values_of,
    words_of,
)
from services.sqlguard.entrance import Inside
from services.sqlguard.parse_tree import Parsed, set_local
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners
from services.sqlguard.trust import examine, functions_of

STATEMENT_TIMEOUT_MS = 10_000
# A DDL command may hold a table for a while.
ATTEMPTS = 3
_PASSING = ("57014", "55P03", "40001", "40P01")
# Settings that every session has from the server alone.
_SERVER_WIDE = """
SELECT name FROM pg_catalog.pg_settings WHERE lower(name) = ANY (%s) AND context IN ('internal', 'postmaster', 'sighup')
"""
_MEANT = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid::pg_catalog.text"
_OF_THE_QUERY = frozenset(
    ("timezone", "datestyle", "intervalstyle", "bytea_output", "extra_float_digits", "search_path")
)
# Functions about the session that runs the query, which is ours and not the subscriber's.
_OF_OUR_SESSION = frozenset(("role", "session_authorization", "is_superuser", "client_encoding"))


class CatalogReader:
    """Any thread may ask; it is closed when nobody does any more."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._runners = Runners(postgres, application_name=APPLICATION_NAME)

    def __enter__(self) -> "CatalogReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._runners.close()

    def describe(self, query: Query) -> Described:
        """Raises Refused for what must not be subscribed to, PostgresUnreachable if nobody answers."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with in_place_of(query, self._runners, statement_timeout_ms=STATEMENT_TIMEOUT_MS) as inside:
                    return _described(inside, query, self._postgres.trusted_owners)
            except psycopg.Error as error:
                if unreachable(error):
                    raise failure(self._postgres, str(error)) from error
                if error.sqlstate not in _PASSING or attempt == ATTEMPTS:
                    raise Refused(*words_of(error)) from error
        raise AssertionError("the last attempt returns or raises")

    def rights(self) -> str:
        """A mark of all rights, policies and roles of the database: while it is the same, none of them changed."""
        try:
            with self._runners.service() as service:
                return rights_mark(service)
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error

    def zone_offsets(self, name: str) -> list[int]:
        """What PostgreSQL's own table says of a time zone: its offsets in seconds, as ZONE_PROBE asks for them."""
        try:
            with self._runners.service() as service, service.transaction():
                set_local(service, {"TimeZone": name})
                row = service.execute(ZONE_PROBE).fetchone()
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error
        assert row is not None
        return list(row[0])

    def normalised(
        self, query: Query, types: Sequence[PgType], tuples: Sequence[ResultRow]
    ) -> list[ResultRow | Refused]:
        """Values as a subscriber writes them, in the text that the log has; Refused where one is none of its type."""
        if not types:
            return list(tuples)
        try:
            with in_place_of(query, self._runners, statement_timeout_ms=STATEMENT_TIMEOUT_MS) as inside:
                return normalised(inside, types, tuples, query.text_settings)
        except psycopg.Error as error:
            if unreachable(error):
                raise failure(self._postgres, str(error)) from error
            return [Refused(*words_of(error))] * len(tuples)


def rights_mark(connection: psycopg.Connection) -> str:
    row = connection.execute(catalog_statement("rights")).fetchone()
    assert row is not None
    return str(row[0])


def _described(inside: Inside, query: Query, trusted_owners: tuple[str, ...]) -> Described:
    parsed = examine(inside, statement(query), types_of(query), trusted_owners=trusted_owners)
    unplanned = _refuse_without_rights(inside, query, parsed)
    service = inside.service
    _refuse_unknown_settings(service, query, parsed)
    role_oid = _role_oid(service, query.role)
    refuse_missing_rights(service, parsed.rewritten, role_oid)
    survey = Survey(service, role=query.role, role_oid=role_oid, settings=_lowered(query))
    _refuse_other_meaning(inside, query, survey.add(parsed.relations))
    # What only policies read.
    survey.add(parsed.rewritten_relations - survey.oids)
    found = depends(statement(query), functions_of(service, parsed), parsed.value_functions)
    others = service.execute(
        catalog_statement("strangers"), {"operators": list(parsed.operators), "objects": list(parsed.user_objects)}
    ).fetchall()
    types = survey.types([*parsed.parameter_types, *(column.type_oid for column in parsed.columns)])
    return Described(
        relations=survey.relations,
        parameter_types=tuple(types[oid] for oid in parsed.parameter_types),
        columns=tuple(
            Column(column.name, _modified(types[column.type_oid], column.type_modifier)) for column in parsed.columns
        ),
        strangers=found.strangers | {name for (name,) in others},
        depends_on=parsed.user_objects | survey.oids | {role_oid},
        obstacle=survey.obstacle or unplanned,
        collation=survey.collation,
        reads_clock=found.reads_clock,
        may_hold_moments=may_hold_moments(statement(query)),
        unsteady=found.unsteady,
        unlogged=found.unlogged,
        rewritten=parsed.rewritten,
        named=_named(survey, parsed.rewritten),
    )


def _named(survey: Survey, rewritten: str) -> Named:
    tree = read_tree(rewritten)
    return Named() if isinstance(tree, NotUnderstood) else survey.named(numbers_of(tree))


def _refuse_without_rights(inside: Inside, query: Query, parsed: Parsed) -> str:
    """EXPLAIN checks rights, of the subscriber and of the owners of views; it says why if it cannot plan the query."""
    try:
        with inside.attempted():
            inside.explain(statement(query), parsed.parameter_types)
    except psycopg.Error as error:
        sqlstate, words = words_of(error)
        # A constant that cannot be computed is an answer too, which PostgreSQL gives when it runs the query.
        if sqlstate[:2] != "22":
            raise
        return f"PostgreSQL does not plan it: {words}"
    return ""


def _refuse_other_meaning(inside: Inside, query: Query, relations: dict[int, Relation]) -> None:
    """A name may have come to mean another relation since the subscriber used it."""
    for known in query.names:
        schema, name = known.written_schema, known.written_name
        full = f"{quoted(schema)}.{quoted(name)}" if schema else quoted(name)
        ((now,),) = inside.ask(_MEANT, [full.encode()], columns=1)
        if now is not None and int(now) in relations and int(now) != known.oid:
            raise Refused("42P01", f'relation "{name}" does not exist')


def _refuse_unknown_settings(connection: psycopg.Connection, query: Query, parsed: Parsed) -> None:
    """The subscriber's settings are known as far as the query brings them along; ours must not stand for them."""
    brought = {name for name in _lowered(query) if can_be_set(name)}
    asked = parsed.settings_read(values_of(query)) - _OF_THE_QUERY - brought
    if not asked:
        return
    rows = connection.execute(_SERVER_WIDE, [list(asked)]).fetchall()
    unknown = asked - ({name.lower() for (name,) in rows} - _OF_OUR_SESSION)
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
