"""The rows of a table as one snapshot shows them, by COPY."""

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
from services.chassis import barrier, snapshot
from services.chassis.postgres import Postgres, connect
from services.recompute.core import storage
from services.recompute.core.catalog import PgType, Table

APPLICATION_NAME = "tidewire recompute"
FORMAT = "tidewire_copy"
UNSTORABLE = "a value cannot be held by Spark"
BLOCK_BYTES = 4 << 20
# A task copies about so much; smaller ones let ticks in between, larger ones save connections.
PART_BYTES = 8 << 20
# Not longer than the load takes; a transaction that holds a snapshot must not be cut by somebody's defaults.
_ENDLESS = """
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""
_TABLE = """
SELECT n.nspname, c.relname, pg_relation_size(c.oid), pg_table_size(c.oid), current_setting('block_size')::int
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""


class TableGone(Exception):
    """There is no table with that oid any more."""


class Ticket(Struct, frozen=True):
    """What a task needs to copy its part under the snapshot of the driver's transaction."""

    dsn: str
    snapshot: str
    # SELECT … FROM ONLY …, to which a task adds its range of pages.
    select: str
    types: tuple[PgType, ...]
    pages_a_part: int
    parts: int


class Opened(Struct, frozen=True):
    """A table under an exported snapshot."""

    ticket: Ticket
    # Quoted, with its schema.
    relation: str
    snapshot: snapshot.Snapshot
    size_bytes: int


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


class Copying:
    """Bases out of PostgreSQL."""

    def __init__(self, postgres: Postgres, *, part_bytes: int = PART_BYTES) -> None:
        self._postgres, self._part_bytes = postgres, part_bytes

    @contextmanager
    def open(self, table: Table) -> Iterator[tuple[Opened, psycopg.Connection]]:
        """A snapshot that lives while the block does; the connection is in its transaction."""
        with (
            connection_for(self._postgres) as connection,
            connection_for(self._postgres) as fencing,
            snapshot.export(connection, fencing) as exported,
        ):
            found = connection.execute(_TABLE, [table.oid]).fetchone()
            if found is None:
                raise TableGone(f"{table.schema}.{table.name}")
            schema, name, heap_bytes, size_bytes, page_bytes = found
            pages = heap_bytes // page_bytes
            relation = sql.Identifier(schema, name).as_string(connection)
            parts = max(1, min(pages, -(-size_bytes // self._part_bytes)))
            ticket = Ticket(
                dsn=self._postgres.dsn,
                snapshot=exported.name,
                select=_select(connection, table, relation),
                types=tuple(column.type for column in table.columns),
                pages_a_part=max(1, -(-pages // parts)),
                parts=parts,
            )
            yield Opened(ticket, relation, exported.snapshot, size_bytes), connection

    def rows(self, table: Table, opened: Opened, connection: psycopg.Connection) -> list[ResultRow]:
        """All rows in the log's text; for tables that are small."""
        columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
        statement = f"COPY (SELECT {columns.as_string(connection)} FROM ONLY {opened.relation}) TO STDOUT"
        with connection.cursor().copy(statement.encode()) as stream:
            return [tuple([None if v is None else v.encode() for v in values]) for values in stream.rows()]

    def emit_barrier(self) -> str:
        with connection_for(self._postgres) as connection:
            return barrier.emit(connection)


def connection_for(postgres: Postgres) -> psycopg.Connection:
    """Text as the log has it, no timeouts, and an error where policies would hide rows."""
    settings = {**PINNED_TEXT_SETTINGS, "row_security": "off", "search_path": "pg_catalog"}
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
    connection = connect(postgres, application_name=APPLICATION_NAME, options=options)
    connection.execute(_ENDLESS)
    return connection


def copy_part(ticket: Ticket, pages: Pages) -> Iterator[pa.RecordBatch]:
    """The rows of some pages as Spark holds them."""
    last = "" if pages.last is None else f" AND ctid < '({pages.last},0)'"
    where = f" WHERE ctid >= '({pages.first},0)'{last}" if ticket.parts > 1 else ""
    statement = f"COPY ({ticket.select}{where}) TO STDOUT (FORMAT csv)"
    with connection_for(Postgres(dsn=ticket.dsn)) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(ticket.snapshot))
        for block in _blocks(connection, statement):
            yield from _batches(block, ticket.types)


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


def _batches(block: bytes, types: tuple[PgType, ...]) -> list[pa.RecordBatch]:
    names = [f"c{position}" for position in range(len(types))]
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict(zip(names, map(storage.arrow_type, types), strict=True)),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise ValueError(f"{UNSTORABLE}: {error}") from error
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


def _select(connection: psycopg.Connection, table: Table, relation: str) -> str:
    expressions = ", ".join(
        storage.copied(sql.Identifier(column.name).as_string(connection), column.type) for column in table.columns
    )
    return f"SELECT {expressions} FROM ONLY {relation}"
