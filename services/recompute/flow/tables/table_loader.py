"""Loads of tables beside the loop: from PostgreSQL, or from a checkpoint and the log behind it."""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from services.chassis.kafka import Kafka
from services.chassis.postgres import PostgresUnreachable
from services.chassis.snapshot import Snapshot
from services.recompute.core.catalog import Table
from services.recompute.inbound.copying import (
    FORMAT,
    UNSTORABLE,
    CopiedTable,
    Copying,
    Opened,
    Pages,
    Ticket,
    copy_part,
)
from services.recompute.inbound.origin import Origin
from services.recompute.inbound.replay import Mark, Unrepeatable, replay
from services.recompute.outbound.checkpoints import Checkpoint, Checkpoints
from services.recompute.outbound.replica import schema_text

PARALLEL_LOADS = 2
# A table up to this is looked at whether its rows are few enough for the driver's memory.
SMALL_BYTES = 1 << 19
# A table up to this is copied by the driver: Python workers for tasks take longer to start.
BY_DRIVER_BYTES = 8 << 20
POOL = "upkeep"
# A commit that the log has shown is visible soon, unless it waits for a standby.
LAG_WAIT_S = 0.05
LAG_WAIT_AT_MOST_S = 5.0


class Loaded(Struct, frozen=True, kw_only=True):
    """Rows of a table: in memory, or as a cached frame, with what must come on top of them."""

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


class Loads:
    """Threads that load; the snapshot of a load is released as soon as its rows are here."""

    def __init__(
        self,
        session: SparkSession,
        copying: Copying,
        kafka: Kafka,
        checkpoints: Checkpoints,
        origin: Origin,
        *,
        in_memory_rows: int,
        by_driver_bytes: int,
    ) -> None:
        self._session, self._copying, self._kafka, self._checkpoints = session, copying, kafka, checkpoints
        self._origin = origin
        self._in_memory_rows, self._by_driver_bytes = in_memory_rows, by_driver_bytes
        self._pool = ThreadPoolExecutor(PARALLEL_LOADS, thread_name_prefix="base")
        self._closed = False
        session.dataSource.register(CopiedTable)

    def begin(self, table: Table, committed: Sequence[Xid]) -> Future[Loaded]:
        """From PostgreSQL, by a snapshot that sees what the log had shown."""
        return self._pool.submit(self._load, table, committed)

    def restore(self, table: Table, history: int, committed: Sequence[Xid]) -> Future[Loaded]:
        """From a checkpoint if there is one that the log leads on from, else from PostgreSQL."""
        return self._pool.submit(self._restore, table, history, committed)

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

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
                pass  # it was only an economy
        return self._load(table, committed)

    def _load(self, table: Table, committed: Sequence[Xid]) -> Loaded:
        wait_s = LAG_WAIT_S
        while True:
            with self._copying.open(table) as (opened, connection):
                if all(opened.snapshot.sees(xid) for xid in committed):
                    rows, frame, count = None, None, 0
                    if opened.size_bytes <= SMALL_BYTES and self._in_memory_rows:
                        rows = self._copying.rows(table, opened, connection)
                        count = len(rows)
                    if rows is None or count > self._in_memory_rows:
                        rows, (frame, count) = None, self._copied(table, opened)
                    break
            if self._closed:
                raise PostgresUnreachable("", "the worker is being stopped")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LAG_WAIT_AT_MOST_S)
        # DDL does not heed snapshots: what came between snapshot and copy must show itself in the log.
        barrier_id = self._copying.emit_barrier()
        return Loaded(rows=rows, frame=frame, count=count, snapshot=opened.snapshot, barrier_id=barrier_id)

    def _copied(self, table: Table, opened: Opened) -> tuple[DataFrame, int]:
        if opened.size_bytes <= self._by_driver_bytes:
            return cached(self._session, self._by_driver(table, opened.ticket))
        reading = self._session.read.format(FORMAT).schema(schema_text(table))
        try:
            return cached(self._session, reading.option("token", msgspec.json.encode(opened.ticket).decode()).load())
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
    """What went wrong in a task, as far as it matters here."""
    text = str(error)
    if UNSTORABLE in text:
        line = next(line for line in text.splitlines() if UNSTORABLE in line)
        return Unfit(line[line.index(UNSTORABLE) :])
    for kind in (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        if f"psycopg.errors.{kind.__name__}" in text:
            return kind(_last_line(text))
    return error


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if "Error" in line or "errors." in line), text)


def _mark(checkpoint: Checkpoint) -> Mark:
    return Mark(checkpoint.history, checkpoint.lsn, checkpoint.next_seq)
