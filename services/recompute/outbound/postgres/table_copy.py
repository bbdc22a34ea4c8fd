"""The rows of a table as one snapshot shows them, by COPY.

The table belongs to somebody, and reading it must run no code of theirs with our rights. A SELECT may: a view put in
the table's place calls functions, and planning evaluates constant calls in the expressions of indexes and statistics,
which no lock of a reader keeps out. COPY of a table itself is neither rewritten nor planned, and refuses a view. So a
SELECT, which alone can read a range of pages or a generated column, is for tables all in the hands of trusted owners.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
from msgspec import Struct, json
from psycopg import sql
from pyarrow import csv
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.rows import ResultRow
from services.changelog import barrier, snapshot
from services.chassis.postgres import Postgres, connect
from services.recompute.core import storage
from services.recompute.core.catalog import Collation, PgType, Table
from services.recompute.outbound.postgres.catalog_relations import statement

APPLICATION_NAME = "tidewire recompute"
FORMAT = "tidewire_copy"
UNSTORABLE = "a value cannot be held by Spark"
BLOCK_BYTES = 4 << 20
# About this much is copied by one task: smaller tasks let ticks run in between, larger ones need fewer connections.
PART_BYTES = 8 << 20
# Not longer than the load takes; a transaction that holds a snapshot must not be cut by somebody's defaults.
# A lock alone is waited for only so long, and then again: other tables are to be loaded meanwhile.
_ENDLESS = """
SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN '2s' ELSE '0' END, false) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""
_NAME = "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s"
# Of an index and of statistics pg_depend has each function and operator that PostgreSQL did not come with.
_TABLE = """
WITH trusted AS (
    SELECT oid FROM pg_roles WHERE rolsuper OR rolname = current_user OR rolname = ANY (%(trusted)s)
), reached AS (
    SELECT n.nspowner AS owner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %(oid)s
    UNION ALL SELECT relowner FROM pg_class WHERE oid = %(oid)s
    UNION ALL SELECT p.proowner FROM (
        SELECT 'pg_class'::regclass, indexrelid FROM pg_index WHERE indrelid = %(oid)s
        UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM pg_statistic_ext WHERE stxrelid = %(oid)s
    ) planned (class, oid) JOIN pg_depend d ON d.classid = planned.class AND d.objid = planned.oid
    LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
    JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode END
)
SELECT pg_relation_size(c.oid), pg_table_size(c.oid), current_setting('block_size')::int,
       NOT EXISTS (SELECT FROM reached r LEFT JOIN pg_roles own ON own.oid = r.owner
                   WHERE CASE own.rolname WHEN 'pg_database_owner'
                              THEN (SELECT datdba FROM pg_database WHERE datname = current_database())
                              ELSE r.owner END NOT IN (SELECT oid FROM trusted))
FROM pg_class c WHERE c.oid = %(oid)s AND c.relkind = 'r'
"""


class TableGone(Exception):
    """There is no table with that oid any more."""


class TableChanged(Exception):
    """The table is not the one that was planned with; its DDL will come in the log."""


class Untrusted(Exception):
    """Only a SELECT could read the table, and somebody could make that run their code."""


class Ticket(Struct, frozen=True):
    """What a task needs to copy its part under the snapshot of the driver's transaction."""

    dsn: str
    snapshot: str
    # What COPY reads: the table with its columns, or SELECT … FROM ONLY …, to which a task adds its range of pages.
    source: str
    is_select: bool
    types: tuple[PgType, ...]
    pages_a_part: int
    parts: int


class Opened(Struct, frozen=True):
    """A table under an exported snapshot."""

    ticket: Ticket
    snapshot: snapshot.Snapshot
    size_bytes: int
    # The number of partitions to spread its rows over, even if they are copied as one.
    spread: int


class Pages(InputPartition):
    """A part of the table: pages from `first` up to `last`, None for all that follow."""

    def __init__(self, first: int, last: int | None) -> None:
        self.first, self.last = first, last


class CopiedTable(DataSource):
    """Spark's view of one COPY; the ticket is in the option `token`, which Spark shows to nobody."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: object) -> "CopyReader":
        return CopyReader(json.decode(self.options["token"], type=Ticket))


class CopyReader(DataSourceReader):
    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket

    def partitions(self) -> list[Pages]:
        pages, parts = self._ticket.pages_a_part, self._ticket.parts
        return [Pages(part * pages, None if part == parts - 1 else (part + 1) * pages) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pages)
        yield from copy_part(self._ticket, partition)


class TableCopy:
    """Copies tables from PostgreSQL."""

    def __init__(self, postgres: Postgres, *, part_bytes: int = PART_BYTES) -> None:
        self._postgres, self._part_bytes = postgres, part_bytes

    @contextmanager
    def open(self, table: Table) -> Iterator[tuple[Opened, psycopg.Connection]]:
        """Open an exported snapshot for the time of the block; the connection is in its transaction."""
        with (
            connection_for(self._postgres) as connection,
            # Outside the snapshot: what the catalog says now.
            connection_for(self._postgres) as fresh,
            snapshot.export(connection) as exported,
        ):
            name = _name(fresh, table)
            # Nobody alters or drops it while the snapshot is open.
            connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE").format(name))
            found = _found(fresh, table, self._postgres.trusted_owners)
            if _name(fresh, table) != name or not _is_same(fresh, table):
                raise TableChanged(f"table {table.schema}.{table.name} has been altered")
            spread = max(1, min(found.pages, -(-found.size_bytes // self._part_bytes)))
            parts = spread if found.is_trusted else 1
            ticket = Ticket(
                dsn=self._postgres.dsn,
                snapshot=exported.name,
                source=_source(connection, table, name, is_select=found.is_trusted),
                is_select=found.is_trusted,
                types=tuple(column.type for column in table.columns),
                pages_a_part=max(1, -(-found.pages // parts)),
                parts=parts,
            )
            yield Opened(ticket, exported.snapshot, found.size_bytes, spread), connection

    def rows(self, opened: Opened, connection: psycopg.Connection) -> list[ResultRow]:
        """All rows in the log's text; for tables that are small."""
        with connection.cursor().copy(f"COPY {_bracketed(opened.ticket)} TO STDOUT".encode()) as stream:
            return [tuple([None if v is None else v.encode() for v in values]) for values in stream.rows()]

    def emit_barrier(self) -> str:
        with connection_for(self._postgres) as connection:
            return barrier.emit(connection)


def connection_for(postgres: Postgres) -> psycopg.Connection:
    """Text as the log has it, no timeouts, and an error where policies would hide rows."""
    settings = {
        **PINNED_TEXT_SETTINGS,
        "row_security": "off",
        "search_path": "pg_catalog",
        "constraint_exclusion": "off",
    }
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
    connection = connect(postgres, application_name=APPLICATION_NAME, options=options)
    connection.execute(_ENDLESS)
    return connection


def copy_part(ticket: Ticket, pages: Pages) -> Iterator[pa.RecordBatch]:
    """The rows of some pages as Spark holds them."""
    copy = f"COPY {_bracketed(ticket, _within(pages) if ticket.parts > 1 else '')} TO STDOUT (FORMAT csv)"
    # Only rows may come of it, whatever functions were called: roll back.
    with connection_for(Postgres(dsn=ticket.dsn)) as connection, connection.transaction(force_rollback=True):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(ticket.snapshot))
        for block in _blocks(connection, copy):
            yield from batches(block, ticket.types)


def _blocks(connection: psycopg.Connection, statement: str) -> Iterator[bytes]:
    """The CSV in pieces that end at the end of a row: PostgreSQL sends each row as one message."""
    rows: list[bytes] = []
    gathered = 0
    with connection.cursor().copy(statement.encode()) as stream:
        for row in stream:
            rows.append(bytes(row))
            gathered += len(row)
            if gathered >= BLOCK_BYTES:
                yield b"".join(rows)
                rows, gathered = [], 0
    if rows:
        yield b"".join(rows)


def batches(block: bytes, types: tuple[PgType, ...]) -> list[pa.RecordBatch]:
    """Rows of COPY's CSV, in the log's text, as Spark holds them."""
    names = [f"c{position}" for position in range(len(types))]
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict(zip(names, map(storage.csv_type, types), strict=True)),
                true_values=["t"],
                false_values=["f"],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for at, type_ in enumerate(types):
            if storage.csv_type(type_) != storage.arrow_type(type_):
                table = table.set_column(at, names[at], storage.arrow_values(type_, table.column(at)))
    except (pa.ArrowInvalid, storage.Unstorable) as error:
        raise ValueError(f"{UNSTORABLE}: {error}") from error
    made: list[pa.RecordBatch] = table.to_batches()
    return made


class _Found(Struct, frozen=True):
    pages: int
    size_bytes: int
    is_trusted: bool


def _name(fresh: psycopg.Connection, table: Table) -> sql.Identifier:
    found = fresh.execute(_NAME, [table.oid]).fetchone()
    if found is None:
        raise TableGone(f"{table.schema}.{table.name}")
    return sql.Identifier(*found)


def _found(fresh: psycopg.Connection, table: Table, trusted_owners: tuple[str, ...]) -> _Found:
    """The table after it was locked; the snapshot may be older than the lock."""
    row = fresh.execute(_TABLE, {"oid": table.oid, "trusted": list(trusted_owners)}).fetchone()
    if row is None:
        raise TableGone(f"{table.schema}.{table.name}")
    heap_bytes, size_bytes, page_bytes, is_trusted = row
    if not is_trusted and (not table.columns or any(column.generated for column in table.columns)):
        raise Untrusted(f"generated columns of table {table.name}, whose owner is not trusted")
    return _Found(heap_bytes // page_bytes, size_bytes, is_trusted)


def _is_same(fresh: psycopg.Connection, table: Table) -> bool:
    """Whether it has the columns that were planned with."""
    rows = fresh.execute(statement("columns"), {"relations": [table.oid], "default": Collation.LANGUAGE.value})
    columns = {(row[2], row[3], row[5], row[9]) for row in rows}
    return columns >= {(c.name, c.type.oid, c.type.modifier, c.generated) for c in table.columns}


def _source(connection: psycopg.Connection, table: Table, name: sql.Identifier, *, is_select: bool) -> str:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    form = sql.SQL("SELECT {0} FROM ONLY {1}") if is_select else sql.SQL("{1} ({0})")
    return form.format(columns, name).as_string(connection)


def _bracketed(ticket: Ticket, where: str = "") -> str:
    return f"({ticket.source}{where})" if ticket.is_select else ticket.source


def _within(pages: Pages) -> str:
    last = "" if pages.last is None else f" AND ctid OPERATOR(pg_catalog.<) '({pages.last},0)'::pg_catalog.tid"
    return f" WHERE ctid OPERATOR(pg_catalog.>=) '({pages.first},0)'::pg_catalog.tid{last}"
