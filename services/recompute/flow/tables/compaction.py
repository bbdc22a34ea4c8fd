"""Compaction and checkpoints of tables, beside the loop."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from structlog.typing import FilteringBoundLogger

from proto.positions import Lsn
from services.recompute.core.limits import ReplicaLimits
from services.recompute.flow.tables.table_loader import POOL, cached
from services.recompute.flow.tables.table_replica import Phase, TableReplica
from services.recompute.inbound.changes import CommitLog
from services.recompute.outbound.origin import Origin
from services.recompute.outbound.table_checkpoints import TableCheckpoint, TableCheckpoints

# A table is compacted when its overlay has more than one tenth of the rows of its base.
SHARE_OF_BASE = 10
# After a failure, of the disk or of Spark, the next attempt waits.
REST_S = 30.0


class Work(Struct, frozen=True):
    replica: TableReplica
    # The new base, or None if only a checkpoint was written.
    future: Future[tuple[DataFrame, int] | None]


class Compaction:
    """Compacts one table at a time in a thread; the new base is used from the next turn on."""

    def __init__(
        self,
        session: SparkSession,
        checkpoints: TableCheckpoints,
        origin: Origin,
        commit_log: CommitLog,
        limits: ReplicaLimits,
        log: FilteringBoundLogger,
        clock: Callable[[], float],
    ) -> None:
        self._session, self._checkpoints, self._origin, self._commit_log = session, checkpoints, origin, commit_log
        self._limits, self._log, self._clock = limits, log, clock
        self._resting_until_s = 0.0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="compaction")
        self._work: Work | None = None

    @property
    def is_idle(self) -> bool:
        return self._work is None

    def turn(self, tables: dict[int, TableReplica]) -> None:
        """Take over what is done, and begin what is due."""
        if self._work is not None and self._work.future.done():
            work, self._work = self._work, None
            self._finish(work, tables)
        if self._work is None and self._clock() >= self._resting_until_s:
            due = next(
                (replica for replica in tables.values() if replica.phase is Phase.READY and self._is_due(replica)), None
            )
            if due is not None:
                self._begin(due)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, replica: TableReplica) -> bool:
        return replica.is_resolved and (self._is_rebase_due(replica) or self._is_checkpoint_due(replica))

    def _is_rebase_due(self, replica: TableReplica) -> bool:
        if replica.is_in_memory:
            return replica.overlay_rows > 2 * self._limits.in_memory_rows
        return replica.overlay_rows > max(self._limits.overlay_rows, replica.base_rows // SHARE_OF_BASE)

    def _is_checkpoint_due(self, replica: TableReplica) -> bool:
        return (
            not replica.is_checkpointed
            and replica.base_rows >= self._limits.checkpoint_rows
            and not replica.is_in_memory
        )

    def _begin(self, replica: TableReplica) -> None:
        is_rebase = self._is_rebase_due(replica)
        replica.set_checkpointed(True)
        frame = replica.frame()
        if is_rebase:
            replica.freeze()
        table = replica.table
        checkpoint = TableCheckpoint(
            origin="",
            oid=table.oid,
            columns=table.columns,
            key=table.key,
            history=self._commit_log.history,
            lsn=Lsn(self._commit_log.reached - 1),
            next_seq=self._commit_log.next_seq,
        )
        self._work = Work(replica, self._pool.submit(self._write, replica, checkpoint, frame, is_rebase))

    def _write(
        self, replica: TableReplica, checkpoint: TableCheckpoint, frame: DataFrame, is_rebase: bool
    ) -> tuple[DataFrame, int] | None:
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
        path = self._checkpoints.write(msgspec.structs.replace(checkpoint, origin=self._origin.name()), frame)
        # Read back from files: otherwise the new base would keep all earlier bases in Spark's lineage.
        base = cached(self._session, self._checkpoints.rows(path, replica.table)) if is_rebase else None
        self._checkpoints.keep_only(replica.table.oid, path)
        return base

    def _finish(self, work: Work, tables: dict[int, TableReplica]) -> None:
        replica = work.replica
        try:
            made = work.future.result()
        except Exception as error:  # of any kind: PySpark passes most errors of the JVM on as they are
            reason = (str(error).splitlines() or [repr(error)])[0]
            self._log.warning("table_not_compacted", table=replica.table.name, reason=reason)
            replica.set_checkpointed(False)
            self._resting_until_s = self._clock() + REST_S
            return
        if made is None:
            return
        base, rows = made
        is_current = tables.get(replica.table.oid) is replica and replica.phase is Phase.READY
        if is_current and replica.rebase(base, rows):
            self._log.info("table_compacted", table=replica.table.name, rows=rows, overlay=replica.overlay_rows)
        else:
            base.unpersist()
