"""Compaction and checkpoints of tables, beside the loop."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
import psycopg
from confluent_kafka import KafkaException
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from structlog.typing import FilteringBoundLogger

from proto.positions import Lsn
from services.chassis.postgres import PostgresUnreachable
from services.recompute.core.limits import Limits
from services.recompute.held import Held, Phase
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.origin import Origin
from services.recompute.loads import POOL, cached
from services.recompute.outbound.checkpoints import Checkpoint, Checkpoints

# An overlay of more than this share of the base is worth a new base.
SHARE_OF_BASE = 10
# After a failure, of the disk or of Spark, the next attempt waits.
REST_S = 30.0


class Work(Struct, frozen=True):
    held: Held
    # None: only the checkpoint was wanted.
    future: Future[tuple[DataFrame, int] | None]
    is_rebase: bool


class Upkeep:
    """One table at a time, in a thread; what it made is taken over between two turns."""

    def __init__(
        self,
        session: SparkSession,
        checkpoints: Checkpoints,
        origin: Origin,
        log: CommitLog,
        limits: Limits,
        events: FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._session, self._checkpoints, self._origin, self._log = session, checkpoints, origin, log
        self._limits, self._events, self._clock = limits, events, clock
        self._resting_until_s = 0.0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="upkeep")
        self._work: Work | None = None

    @property
    def is_idle(self) -> bool:
        return self._work is None

    def turn(self, tables: dict[int, Held]) -> None:
        """Take over what is done, and begin what is due."""
        if self._work is not None and self._work.future.done():
            work, self._work = self._work, None
            self._finish(work, tables)
        if self._work is None and self._clock() >= self._resting_until_s:
            due = next((held for held in tables.values() if held.phase is Phase.READY and self._is_due(held)), None)
            if due is not None:
                self._begin(due)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, held: Held) -> bool:
        return held.is_resolved and (self._is_rebase_due(held) or self._is_checkpoint_due(held))

    def _is_rebase_due(self, held: Held) -> bool:
        if held.is_in_memory:
            return held.overlay_rows > 2 * self._limits.in_memory_rows
        return held.overlay_rows > max(self._limits.overlay_rows, held.base_rows // SHARE_OF_BASE)

    def _is_checkpoint_due(self, held: Held) -> bool:
        return not held.is_checkpointed and held.base_rows >= self._limits.checkpoint_rows and not held.is_in_memory

    def _begin(self, held: Held) -> None:
        is_rebase = self._is_rebase_due(held)
        held.is_checkpointed = True
        frame = held.frame()
        if is_rebase:
            held.freeze()
        table = held.table
        checkpoint = Checkpoint(
            origin="",
            oid=table.oid,
            columns=table.columns,
            key=table.key,
            history=self._log.history,
            lsn=Lsn(self._log.reached - 1),
            next_seq=self._log.next_seq,
        )
        self._work = Work(held, self._pool.submit(self._write, held, checkpoint, frame, is_rebase), is_rebase)

    def _write(
        self, held: Held, checkpoint: Checkpoint, frame: DataFrame, is_rebase: bool
    ) -> tuple[DataFrame, int] | None:
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        path = self._checkpoints.write(msgspec.structs.replace(checkpoint, origin=self._origin.name()), frame)
        # Read back: a base that rests on files does not drag the bases before it along.
        base = cached(self._session, self._checkpoints.rows(path, held.table)) if is_rebase else None
        self._checkpoints.keep_only(held.table.oid, path)
        return base

    def _finish(self, work: Work, tables: dict[int, Held]) -> None:
        held = work.held
        try:
            made = work.future.result()
        except (PySparkException, OSError, psycopg.Error, PostgresUnreachable, KafkaException) as error:
            self._events.warning("table_not_compacted", table=held.table.name, reason=str(error).splitlines()[0])
            held.is_checkpointed = False
            self._resting_until_s = self._clock() + REST_S
            return
        if made is None:
            return
        base, rows = made
        is_current = tables.get(held.table.oid) is held and held.phase is Phase.READY
        if is_current and held.rebase(base, rows):
            self._events.info("table_compacted", table=held.table.name, rows=rows, overlay=held.overlay_rows)
        else:
            base.unpersist()
