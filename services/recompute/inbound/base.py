"""Tables of PostgreSQL: what they are called, how they look, and their rows as of one snapshot."""

from collections.abc import Mapping, Sequence

import psycopg
from msgspec import Struct
from psycopg import sql

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.rows import ResultRow
from services.chassis import barrier, snapshot
from services.chassis.postgres import Postgres, connect
from services.recompute.core.table import Table, TableColumn
from services.recompute.errors import RelationMissing

APPLICATION_NAME = "tidewire recompute"

_TABLE = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, c.relrowsecurity,
       EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid),
       coalesce((SELECT (string_to_array(i.indkey::text, ' ')::int[])[1:i.indnkeyatts] FROM pg_index i
                 WHERE i.indrelid = c.oid AND i.indisprimary), '{}'),
       -- Capture's publications of updates and deletes; inserts of all tables are in another one.
       EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
               WHERE r.prrelid = c.oid AND p.pubname ~ '^tidewire_[0-9]{2}$')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = %s
"""
_COLUMNS = """
SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, CASE WHEN n.nspname = 'pg_catalog' THEN t.typname
       ELSE n.nspname || '.' || t.typname END, coalesce(l.collisdeterministic, true), a.attgenerated <> ''
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_KINDS = {"p": "partitioned tables", "v": "views", "m": "materialized views", "f": "foreign tables"}


class Base(Struct, frozen=True):
    """The rows that a snapshot sees; the state at the barrier is these and what the log adds up to it."""

    table: Table
    rows: list[ResultRow]
    snapshot: snapshot.Snapshot
    barrier_id: str


class Source:
    """The database that rows come from."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def resolve(self, schema: str | None, name: str, search_path: Sequence[str]) -> Table:
        """The table that a name means to somebody with this search path."""
        with self._connect() as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", [", ".join(map(_quoted, search_path))])
            full = _quoted(name) if schema is None else f"{_quoted(schema)}.{_quoted(name)}"
            row = connection.execute("SELECT to_regclass(%s)::oid", [full]).fetchone()
            assert row is not None
            if row[0] is None:
                raise RelationMissing(name)
            return _describe(connection, int(row[0]), name)

    def load(self, oid: int, name: str) -> Base:
        """All rows of a table, in PostgreSQL's text under the settings that the log has."""
        with (
            self._connect(options=_pinned()) as connection,
            self._connect() as fencing,
            snapshot.export(connection, fencing) as exported,
        ):
            table = _describe(connection, oid, name)
            columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
            copy = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(
                columns, sql.Identifier(table.schema, table.name)
            )
            with connection.cursor().copy(copy) as stream:
                rows = [tuple(None if v is None else v.encode() for v in values) for values in stream.rows()]
            return Base(table, rows, exported.snapshot, exported.barrier_id)

    def emit_barrier(self) -> str:
        with self._connect() as connection:
            return barrier.emit(connection)

    def _connect(self, options: str = "") -> psycopg.Connection:
        return connect(self._postgres, application_name=APPLICATION_NAME, options=options)


def _describe(connection: psycopg.Connection, oid: int, name: str) -> Table:
    found = connection.execute(_TABLE, [oid]).fetchone()
    if found is None:
        raise RelationMissing(name)
    _, schema, relname, kind, persistence, identity, secured, inherits, key, published = found
    rows = connection.execute(_COLUMNS, [oid]).fetchall()
    columns = tuple(
        TableColumn(name=name, type_oid=type_oid, type_modifier=modifier, type_name=type_name, deterministic=equal)
        for _, name, type_oid, modifier, type_name, equal, _ in rows
    )
    place = {row[0]: position for position, row in enumerate(rows)}
    return Table(
        oid=oid,
        schema=schema,
        name=relname,
        columns=columns,
        key=tuple(place[number] for number in key),
        obstacle=_obstacle(
            kind,
            {
                "temporary and unlogged tables": persistence != "p",
                "tables that are not tracked": identity == "n",
                "tables whose updates and deletes are not in the log (see `tidewire doctor`)": not published,
                "row level security": secured,
                "tables that inherit": inherits,
                "tables with generated columns": any(row[6] for row in rows),
            },
        ),
    )


def _obstacle(kind: str, others: Mapping[str, bool]) -> str:
    """Why the log alone does not tell what the table holds for its readers."""
    if kind != "r":
        return _KINDS.get(kind, "anything but an ordinary table")
    return next((obstacle for obstacle, holds in others.items() if holds), "")


def _pinned() -> str:
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in PINNED_TEXT_SETTINGS.items())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
