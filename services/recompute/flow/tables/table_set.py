"""The tables that queries read, each kept in Spark as of the last commit taken."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psycopg
from msgspec import Struct
from pyspark.sql import DataFrame
from structlog.typing import FilteringBoundLogger

from proto.positions import ZERO_LSN, Lsn
from proto.streams.changes import SchemaChanged
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres, PostgresUnreachable
from services.recompute.core.catalog import Table
from services.recompute.core.limits import ReplicaLimits
from services.recompute.core.row_changes import NOTHING, Changes, Diverged
from services.recompute.core.schema_marks import read_mark
from services.recompute.core.storage import Unstorable
from services.recompute.flow.tables.compaction import Compaction
from services.recompute.flow.tables.table_loader import BY_DRIVER_BYTES, Loaded, TableLoader, Unfit
from services.recompute.flow.tables.table_replica import Phase, Pinned, TableReplica
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.outbound.origin import Origin
from services.recompute.outbound.postgres.table_copy import PART_BYTES, TableCopy, TableGone
from services.recompute.outbound.spark.session import Spark
from services.recompute.outbound.table_checkpoints import TableCheckpoints

MOST_FAILED_LOADS = 3
RETRY_S = 0.5


class Settled(Struct, frozen=True):
    """A table that was loaded, is gone, or cannot be held in Spark."""

    oid: int
    outcome: str
    reason: str = ""


class TableSet:
    """Called in each turn in this order: take, settle, view and changes, clear_changes, compact."""

    def __init__(
        self,
        spark: Spark,
        postgres: Postgres,
        kafka: Kafka,
        commit_log: CommitLog,
        folder: Path,
        log: FilteringBoundLogger,
        *,
        limits: ReplicaLimits | None = None,
        part_bytes: int = PART_BYTES,
        by_driver_bytes: int = BY_DRIVER_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or ReplicaLimits()
        self._session, self._commit_log, self._log, self._clock = spark.session, commit_log, log, clock
        checkpoints = TableCheckpoints(self._session, folder)
        origin = Origin(postgres, kafka)
        table_copy = TableCopy(postgres, part_bytes=part_bytes)
        self._loader = TableLoader(
            self._session,
            table_copy,
            kafka,
            checkpoints,
            origin,
            limits=limits,
            by_driver_bytes=by_driver_bytes,
        )
        self._compaction = Compaction(self._session, checkpoints, origin, commit_log, limits, log, clock)
        self._tables: dict[int, TableReplica] = {}
        self._settled: list[Settled] = []

    def want(self, table: Table, *, login: str = "") -> None:
        """Keep a replica of the table, loaded in the turn of this login; it is ready when settle() reports it."""
        table = msgspec.structs.replace(table, row_filter="", obstacle="")
        replica = self._tables.get(table.oid)
        if replica is not None and replica.table == table and replica.phase is not Phase.UNFIT:
            return
        self.release(table.oid)
        replica = self._tables[table.oid] = TableReplica(self._session, table, login)
        self._begin(replica)

    def release(self, oid: int) -> None:
        replica = self._tables.pop(oid, None)
        if replica is not None:
            replica.drop()

    def reload(self, oid: int, reason: str) -> None:
        """Load the table again from PostgreSQL."""
        replica = self._tables.get(oid)
        if replica is not None:
            replica.reset_failures()
            self._reload(replica, reason)

    def is_ready(self, oid: int) -> bool:
        replica = self._tables.get(oid)
        return replica is not None and replica.phase is Phase.READY

    @property
    def replicas(self) -> list[TableReplica]:
        """All of them, to be looked at."""
        return list(self._tables.values())

    def table(self, oid: int) -> Table:
        return self._tables[oid].table

    def key(self, oid: int) -> tuple[int, ...]:
        """The places of the columns by which rows are stored; empty: as a multiset."""
        return self._tables[oid].table.key

    def take(self, commit: Commit) -> None:
        """Take a whole commit in."""
        for event in commit.events:
            if isinstance(event, SchemaChanged):
                for replica in self._tables.values():
                    if replica.phase is Phase.LOADING and read_mark(event.description).is_about(replica.table):
                        replica.change_later(event)
                continue
            concerned = self._tables.get(event.relation.oid)
            if concerned is None:
                continue
            if concerned.phase is Phase.LOADING:
                concerned.change_later(event)
            elif concerned.phase is Phase.READY:
                try:
                    concerned.change(event)
                except Diverged as reason:
                    self._diverged(concerned, str(reason))

    def settle(self) -> list[Settled]:
        """The tables that were loaded, are gone or unfit since the last call; then views and changes can be read."""
        for replica in list(self._tables.values()):
            if replica.phase is Phase.LOADING:
                self._settle(replica)
            if replica.phase is Phase.READY:
                self._resolve(replica)
        settled, self._settled = self._settled, []
        return settled

    def view(self, oid: int) -> str:
        """The name of a Spark view of the table after all commits taken; good until the next commit is."""
        return self._tables[oid].view()

    def frame(self, oid: int) -> DataFrame:
        """The table's rows as they are now; later changes do not affect the frame."""
        return self._tables[oid].frame()

    def rows(self, oid: int) -> int:
        """About how many rows it has: those of its base, and what changed on top of it."""
        replica = self._tables[oid]
        return replica.base_rows + replica.overlay_rows

    def identity(self, oid: int) -> tuple[int, int]:
        """Another one when the rows were loaded again, so that changes do not lead from one to the next."""
        replica = self._tables[oid]
        return id(replica), replica.loads

    def pin(self, oid: int, width: int) -> Pinned:
        """The table as it is now, for an evaluation beside the loop, until unpin()."""
        return self._tables[oid].pin(width)

    def unpin(self, pinned: Pinned) -> None:
        pinned.replica.unpin(pinned)

    def is_still(self, pinned: Pinned, *, same_base: bool) -> bool:
        replica = self._tables.get(pinned.table.oid)
        return replica is pinned.replica and replica.is_still(pinned, same_base=same_base)

    def changes(self, oid: int) -> Changes:
        """Net row changes since clear_changes()."""
        replica = self._tables.get(oid)
        return replica.changes() if replica is not None and replica.phase is Phase.READY else NOTHING

    def clear_changes(self) -> None:
        for replica in self._tables.values():
            if replica.phase is Phase.READY:
                replica.clear_changes()

    def compact(self) -> None:
        """Start and finish compactions and checkpoints."""
        self._compaction.turn(self._tables)

    def close(self) -> None:
        self._loader.close()
        self._compaction.close()

    def _begin(self, replica: TableReplica) -> None:
        committed = self._commit_log.commits.known()
        if replica.may_restore:
            history = self._commit_log.history
            replica.begin(self._loader.restore(replica.table, history, committed, login=replica.login))
        else:
            replica.begin(self._loader.begin(replica.table, committed, login=replica.login))

    def _reload(self, replica: TableReplica, reason: str) -> None:
        self._log.warning("table_reloaded", table=replica.table.name, reason=reason)
        replica.forbid_restore()
        self._begin(replica)

    def _diverged(self, replica: TableReplica, reason: str) -> None:
        if replica.may_reload(self._clock()):
            self._reload(replica, reason)
        else:
            self._give_up(replica, reason)

    def _give_up(self, replica: TableReplica, reason: str) -> None:
        replica.set_unfit()
        self._settled.append(Settled(replica.table.oid, "unfit", reason))

    def _settle(self, replica: TableReplica) -> None:
        if replica.load is None:
            if self._clock() >= replica.retry_at_s:
                self._begin(replica)
            return
        if not replica.load.done():
            return
        try:
            loaded = replica.load.result()
        except TableGone:
            self._release_gone(replica)
        except (Unfit, psycopg.errors.InsufficientPrivilege) as error:
            self._give_up(replica, str(error))
        except (PostgresUnreachable, psycopg.errors.LockNotAvailable) as error:
            self._retry(replica, str(error))
        except Exception as error:  # of Spark, psycopg or the disk: the load is tried again, then left
            if replica.load_failed() >= MOST_FAILED_LOADS:
                self._give_up(replica, str(error))
            else:
                self._retry(replica, str(error))
        else:
            self._take_over(replica, loaded)

    def _take_over(self, replica: TableReplica, loaded: Loaded) -> None:
        if loaded.snapshot is None:
            is_passed, fence = self._commit_log.reached > loaded.reached, self._commit_log.reached
        else:
            fence = Lsn(self._commit_log.barriers.get(loaded.barrier_id, ZERO_LSN))
            is_passed = fence > ZERO_LSN
        if not is_passed:
            return
        try:
            replica.take(loaded, fence)
        except Diverged as reason:
            self._diverged(replica, str(reason))
            return
        except Unstorable as error:
            self._give_up(replica, str(error))
            return
        replica.reset_failures()
        self._log.info("table_loaded", table=replica.table.name, rows=loaded.count, restored=loaded.snapshot is None)
        self._settled.append(Settled(replica.table.oid, "loaded"))

    def _resolve(self, replica: TableReplica) -> None:
        try:
            replica.resolve()
        except Diverged as reason:
            self._diverged(replica, str(reason))
        except Unstorable as error:
            self._give_up(replica, str(error))

    def _retry(self, replica: TableReplica, reason: str) -> None:
        self._log.warning("table_not_loaded", table=replica.table.name, reason=reason.splitlines()[0])
        replica.load_again_at(self._clock() + RETRY_S)

    def _release_gone(self, replica: TableReplica) -> None:
        self.release(replica.table.oid)
        self._settled.append(Settled(replica.table.oid, "gone"))
