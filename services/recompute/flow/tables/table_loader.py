"""Loads tables in threads: from PostgreSQL, or from a checkpoint and the log since."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from uuid import uuid4

import msgspec
import psycopg
import pyarrow as pa
from confluent_kafka import KafkaException
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from proto.positions import ZERO_LSN, Lsn, Xid
from proto.rows import ResultRow
from proto.streams.changes import RowChanged, Truncated
from services.changelog.snapshot import Snapshot
from services.chassis.kafka import Kafka
from services.chassis.postgres import PostgresUnreachable
from services.recompute.core.catalog import Table
from services.recompute.core.limits import ReplicaLimits
from services.recompute.flow.fair_pool import FairPool
from services.recompute.outbound.origin import Origin
from services.recompute.outbound.postgres.table_copy import (
    FORMAT,
    UNSTORABLE,
    CopiedTable,
    Opened,
    Pages,
    TableCopy,
    Ticket,
    Untrusted,
    copy_part,
)
from services.recompute.outbound.replay import Mark, Unrepeatable, replay
from services.recompute.outbound.spark.base_table import schema_text
from services.recompute.outbound.table_checkpoints import TableCheckpoint, TableCheckpoints

PARALLEL_LOADS = 2
# Tables up to this size are read first to see if their rows are few enough for the driver's memory.
SMALL_BYTES = 1 << 19
# Tables up to this size are copied by the driver: starting Python workers for tasks takes longer.
BY_DRIVER_BYTES = 8 << 20
POOL = "tables"
# A commit that the log has shown is visible soon, unless it waits for a standby.
LAG_WAIT_S = 0.05
LAG_WAIT_AT_MOST_S = 5.0


class Loaded(Struct, frozen=True, kw_only=True):
    """Rows of a table, in memory or as a cached frame, and the changes to apply on top."""

    rows: list[ResultRow] | None = None
    frame: DataFrame | None = None
    count: int
    # What the rows show; None: the state behind `reached` without `past`.
    snapshot: Snapshot | None = None
    # The log must have passed it before the rows can be used.
    barrier_id: str = ""
    past: tuple[RowChanged | Truncated, ...] = ()
    reached: Lsn = ZERO_LSN

    def sees(self, xid: Xid, lsn: Lsn) -> bool:
        """Whether the rows, with `past`, contain a commit."""
        return lsn <= self.reached if self.snapshot is None else self.snapshot.sees(xid)

    def discard(self) -> None:
        if self.frame is not None:
            self.frame.unpersist()


class Unfit(Exception):
    """The table cannot be held in Spark."""


class TableLoader:
    """Loads in a pool of threads; a load's snapshot is released as soon as its rows are read."""

    def __init__(
        self,
        session: SparkSession,
        table_copy: TableCopy,
        kafka: Kafka,
        checkpoints: TableCheckpoints,
        origin: Origin,
        *,
        limits: ReplicaLimits,
        by_driver_bytes: int,
    ) -> None:
        self._session, self._table_copy, self._kafka, self._checkpoints = session, table_copy, kafka, checkpoints
        self._origin = origin
        self._in_memory_rows, self._by_driver_bytes = limits.in_memory_rows, by_driver_bytes
        self._largest_mb = limits.largest_table_mb
        # One login's large or locked tables leave a thread to the others.
        self._pool = FairPool(PARALLEL_LOADS, login_threads=PARALLEL_LOADS - 1, name="base")
        self._closed = False
        session.dataSource.register(CopiedTable)

    def begin(self, table: Table, committed: Sequence[Xid], *, login: str) -> Future[Loaded]:
        """From PostgreSQL, by a snapshot that sees what the log had shown; in the login's turn."""
        return self._pool.submit(login, partial(self._load, table, committed))

    def restore(self, table: Table, history: int, committed: Sequence[Xid], *, login: str) -> Future[Loaded]:
        """From a checkpoint if there is one that the log leads on from, else from PostgreSQL."""
        return self._pool.submit(login, partial(self._restore, table, history, committed))

    def close(self) -> None:
        self._closed = True
        self._pool.close()

    def _restore(self, table: Table, history: int, committed: Sequence[Xid]) -> Loaded:
        if self._checkpoints.has_any(table):
            try:
                found = self._checkpoints.newest(table, history, self._origin.name())
                if found is None:
                    return self._load(table, committed)
                checkpoint, path = found
                replayed = replay(self._kafka, _mark(checkpoint), table)
                frame, count = cached(self._session, self._checkpoints.rows(path, table))
                return Loaded(frame=frame, count=count, past=replayed.events, reached=replayed.lsn)
            except (Unrepeatable, PySparkException, KafkaException):
                pass  # a checkpoint only saves time: load from PostgreSQL
        return self._load(table, committed)

    def _load(self, table: Table, committed: Sequence[Xid]) -> Loaded:
        try:
            return self._taken(table, committed)
        except Untrusted as error:
            raise Unfit(str(error)) from error

    def _taken(self, table: Table, committed: Sequence[Xid]) -> Loaded:
        wait_s = LAG_WAIT_S
        while True:
            with self._table_copy.open(table) as (opened, connection):
                if opened.size_bytes > self._largest_mb << 20:
                    raise Unfit(
                        f"table {table.name} takes {opened.size_bytes >> 20} MB, at most {self._largest_mb} are copied"
                    )
                if all(opened.snapshot.sees(xid) for xid in committed):
                    rows, frame, count = None, None, 0
                    if opened.size_bytes <= SMALL_BYTES and self._in_memory_rows:
                        rows = self._table_copy.rows(opened, connection)
                        count = len(rows)
                    if rows is None or count > self._in_memory_rows:
                        rows, (frame, count) = None, self._copied(table, opened)
                    break
            if self._closed:
                raise PostgresUnreachable("", "the worker is being stopped")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LAG_WAIT_AT_MOST_S)
        # DDL takes effect regardless of snapshots: wait until the log shows what came between snapshot and copy.
        barrier_id = self._table_copy.emit_barrier()
        return Loaded(rows=rows, frame=frame, count=count, snapshot=opened.snapshot, barrier_id=barrier_id)

    def _copied(self, table: Table, opened: Opened) -> tuple[DataFrame, int]:
        if opened.size_bytes <= self._by_driver_bytes:
            return cached(self._session, self._by_driver(table, opened.ticket))
        reading = self._session.read.format(FORMAT).schema(schema_text(table))
        frame = reading.option("token", msgspec.json.encode(opened.ticket).decode()).load()
        if opened.spread > opened.ticket.parts:
            frame = frame.repartition(opened.spread)
        try:
            return cached(self._session, frame)
        except PySparkException as error:
            raise failure(error) from error

    def _by_driver(self, table: Table, ticket: Ticket) -> DataFrame:
        try:
            batches = list(copy_part(ticket, Pages(0, None)))
        except ValueError as error:
            raise Unfit(str(error)) from error
        if not batches:
            return self._session.createDataFrame([], schema_text(table))
        return self._session.createDataFrame(pa.Table.from_batches(batches))


def cached(session: SparkSession, frame: DataFrame) -> tuple[DataFrame, int]:
    """The frame with its rows in Spark's memory, and how many they are; ticks go on meanwhile."""
    session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
    # Spark caches by plan: a frame equal to another one would lose its rows when that one goes.
    kept = frame.where(f"'{uuid4().hex}' IS NOT NULL").cache()
    try:
        return kept, kept.count()
    except PySparkException:
        kept.unpersist()
        raise


def failure(error: PySparkException) -> Exception:
    """The error of a Spark task as one of the errors that callers distinguish."""
    text = str(error)
    if UNSTORABLE in text:
        line = next(line for line in text.splitlines() if UNSTORABLE in line)
        return Unfit(line[line.index(UNSTORABLE) :])
    for kind in (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedColumn,
        psycopg.errors.LockNotAvailable,
    ):
        if f"psycopg.errors.{kind.__name__}" in text:
            return kind(_last_line(text))
    return error


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if "Error" in line or "errors." in line), text)


def _mark(checkpoint: TableCheckpoint) -> Mark:
    return Mark(checkpoint.history, checkpoint.lsn, checkpoint.next_seq)
