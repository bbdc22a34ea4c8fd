"""Asks PostgreSQL about durable topics: their definitions, the tables that routes read, and where failures are kept."""

from collections.abc import Iterable

import psycopg
from msgspec import Struct

from services.changelog import barrier
from services.chassis import own_schema
from services.chassis.postgres import Postgres, connect
from services.recompute.core.topics.definition import Definition, Route, read_definition
from services.recompute.core.topics.source_table import SourceTable, SourceTables

APPLICATION_NAME = "tidewire recompute"
_DEFINITIONS = """
SELECT (to_jsonb(t) || jsonb_build_object('routes', coalesce((
    SELECT jsonb_agg(to_jsonb(r) ORDER BY r.route) FROM _tidewire.topic_routes r
    WHERE r.topic_id = t.topic_id), '[]')))::text
FROM _tidewire.topics t
"""
_TABLES = """
WITH RECURSIVE member(root, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(oids)s)
    UNION
    SELECT m.root, i.inhrelid FROM member m JOIN pg_inherits i ON i.inhparent = m.oid
    JOIN pg_class p ON p.oid = i.inhrelid AND p.relispartition
)
SELECT c.oid::int8, n.nspname, c.relname, pg_get_userbyid(c.relowner),
       ARRAY(SELECT a.attname::text FROM pg_index i
             CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE i.indisprimary AND i.indrelid = c.oid AND k.place <= i.indnkeyatts ORDER BY k.place),
       ARRAY(SELECT m.oid::int8 FROM member m JOIN pg_class t ON t.oid = m.oid WHERE m.root = c.oid AND t.relkind = 'r')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%(oids)s) AND c.relkind IN ('r', 'p')
"""
# Grants are also read from the rows of the catalog: has_table_privilege answers from a cache.
_READERS = """
SELECT c.oid::int8, r.rolname FROM unnest(%(oids)s::oid[], %(roles)s::text[]) AS asked(oid, role)
JOIN pg_class c ON c.oid = asked.oid JOIN pg_roles r ON r.rolname = asked.role
WHERE has_schema_privilege(r.oid, c.relnamespace, 'USAGE') AND has_table_privilege(r.oid, c.oid, 'SELECT')
  AND (r.rolsuper OR pg_has_role(r.oid, 'pg_read_all_data', 'USAGE')
       OR EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g
                  WHERE g.privilege_type = 'SELECT' AND (g.grantee = 0 OR pg_has_role(r.oid, g.grantee, 'USAGE'))))
  AND (NOT c.relrowsecurity OR r.rolsuper OR r.rolbypassrls
       OR (NOT c.relforcerowsecurity AND pg_has_role(r.oid, c.relowner, 'USAGE')))
"""
_DOMAINS = """
WITH RECURSIVE below(given, typid) AS (
    SELECT DISTINCT t.oid, t.typbasetype FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = ANY (%(oids)s) AND t.typtype = 'd' AND NOT a.attisdropped
    UNION ALL
    SELECT b.given, t.typbasetype FROM below b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype = 'd'
)
SELECT b.given::int8, b.typid::int8 FROM below b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype <> 'd'
"""
_BURY = "SELECT _tidewire.bury_change(%s, %s, %s, %s, %s)"


class NotInstalled(Exception):
    """Capture has not put the topics' tables into the database yet."""


class Buried(Struct, frozen=True):
    """A change that a route could not be evaluated on. The same one is kept once, however often it is told."""

    topic_id: str
    route: int
    # The seq of its change; a TRUNCATE is one change of many rows, which have a number each.
    number: int
    reason: str
    record: bytes


class TopicSources:
    """Connections are made where needed: the caller asks again if PostgreSQL does not answer."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: psycopg.Connection | None = None

    def definitions(self) -> tuple[list[Definition], str]:
        """All that are committed now, and a barrier that stands behind them in the log."""
        connection = self._connected()
        if not own_schema.exists(connection):
            raise NotInstalled
        (found,) = connection.execute("SELECT to_regclass('_tidewire.topic_routes') IS NOT NULL").fetchone() or (False,)
        if not found:
            raise NotInstalled
        rows = connection.execute(_DEFINITIONS).fetchall()
        return [read_definition(row[0].encode()) for row in rows], barrier.emit(connection)

    def tables(self, routes: Iterable[Route]) -> SourceTables:
        """The tables that these routes read, as they are now; one that is gone is left out."""
        asked = {(route.table_oid, route.role) for route in routes}
        oids = sorted({oid for oid, _ in asked})
        if not oids:
            return SourceTables({}, {})
        connection = self._connected()
        pairs = {"oids": [oid for oid, _ in asked], "roles": [role for _, role in asked]}
        readers: dict[int, set[str]] = {}
        for oid, role in connection.execute(_READERS, pairs):
            readers.setdefault(oid, set()).add(role)
        tables = {
            oid: SourceTable(
                oid=oid,
                schema=schema,
                name=name,
                owner=owner,
                key=tuple(key),
                leaves=tuple(leaves),
                readers=frozenset(readers.get(oid, ())),
            )
            for oid, schema, name, owner, key, leaves in connection.execute(_TABLES, {"oids": oids})
        }
        every = sorted({leaf for table in tables.values() for leaf in table.leaves} | set(oids))
        return SourceTables(tables, dict(connection.execute(_DOMAINS, {"oids": every}).fetchall()))

    def bury(self, buried: Iterable[Buried]) -> None:
        connection = self._connected()
        with connection.transaction():
            for one in buried:
                connection.execute(_BURY, [one.topic_id, one.route, one.number, one.reason, one.record])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._postgres, application_name=APPLICATION_NAME, options="-c search_path=pg_catalog"
            )
        return self._connection
