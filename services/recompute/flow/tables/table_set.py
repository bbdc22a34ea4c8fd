"""The tables that queries read, each held as of the last commit taken."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psycopg
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.positions import ZERO_LSN, Lsn
from proto.streams.changes import SchemaChanged
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres, PostgresUnreachable
from services.recompute.core.catalog import Table
from services.recompute.core.changed import NOTHING, Changes, Diverged
from services.recompute.core.limits import Limits
from services.recompute.core.schema_marks import read_mark
from services.recompute.core.storage import Unstorable
from services.recompute.held import Held, Phase
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.inbound.copying import PART_BYTES, Copying, TableGone
from services.recompute.inbound.origin import Origin
from services.recompute.loads import BY_DRIVER_BYTES, Loaded, Loads, Unfit
from services.recompute.outbound.checkpoints import Checkpoints
from services.recompute.outbound.session import Spark
from services.recompute.upkeep import Upkeep

# A table that does not fit its log so often within this time is left to PostgreSQL.
MOST_RELOADS = 3
RELOADS_WITHIN_S = 60.0
MOST_FAILED_LOADS = 3
RETRY_S = 0.5


class Settled(Struct, frozen=True):
    """A table whose state is certain now: loaded, gone, or unfit for Spark."""

    oid: int
    outcome: str
    reason: str = ""


class Tables:
    """In a turn: take commits, settle, read views and changes, tell that they were told, upkeep."""

    def __init__(
        self,
        spark: Spark,
        postgres: Postgres,
        kafka: Kafka,
        log: CommitLog,
        folder: Path,
        events: FilteringBoundLogger,
        *,
        limits: Limits | None = None,
        part_bytes: int = PART_BYTES,
        by_driver_bytes: int = BY_DRIVER_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or Limits()
        self._session, self._log, self._events, self._clock = spark.session, log, events, clock
        checkpoints = Checkpoints(self._session, folder)
        origin = Origin(postgres, kafka)
        copying = Copying(postgres, part_bytes=part_bytes)
        self._loads = Loads(
            self._session,
            copying,
            kafka,
            checkpoints,
            origin,
            in_memory_rows=limits.in_memory_rows,
            by_driver_bytes=by_driver_bytes,
        )
        self._upkeep = Upkeep(self._session, checkpoints, origin, log, limits, events, clock)
        self._tables: dict[int, Held] = {}
        self._settled: list[Settled] = []

    def want(self, table: Table) -> None:
        """Hold the table; it is ready when settle() says so."""
        table = msgspec.structs.replace(table, row_filter="", obstacle="")
        held = self._tables.get(table.oid)
        if held is not None and held.table == table and held.phase is not Phase.UNFIT:
            return
        self.release(table.oid)
        held = self._tables[table.oid] = Held(self._session, table)
        self._begin(held)

    def release(self, oid: int) -> None:
        held = self._tables.pop(oid, None)
        if held is not None:
            held.drop()

    def reload(self, oid: int, reason: str) -> None:
        """Take the table anew from PostgreSQL."""
        held = self._tables.get(oid)
        if held is not None:
            held.failed_loads = 0
            self._reload(held, reason)

    def is_ready(self, oid: int) -> bool:
        held = self._tables.get(oid)
        return held is not None and held.phase is Phase.READY

    def table(self, oid: int) -> Table:
        return self._tables[oid].table

    def key(self, oid: int) -> tuple[int, ...]:
        """The places of the columns by which rows are held; empty: as a multiset."""
        return self._tables[oid].table.key

    def take(self, commit: Commit) -> None:
        """Take a whole commit in."""
        for event in commit.events:
            if isinstance(event, SchemaChanged):
                for held in self._tables.values():
                    if held.phase is Phase.LOADING and read_mark(event.description).is_about(held.table):
                        held.backlog.append(event)
                continue
            concerned = self._tables.get(event.relation.oid)
            if concerned is None:
                continue
            if concerned.phase is Phase.LOADING:
                concerned.backlog.append(event)
            elif concerned.phase is Phase.READY:
                try:
                    concerned.change(event)
                except Diverged as reason:
                    self._diverged(concerned, str(reason))

    def settle(self) -> list[Settled]:
        """What has become certain since the last call; after it, views and changes of ready tables can be read."""
        for held in list(self._tables.values()):
            if held.phase is Phase.LOADING:
                self._settle(held)
            if held.phase is Phase.READY:
                self._resolve(held)
        settled, self._settled = self._settled, []
        return settled

    def view(self, oid: int) -> str:
        """The name of a Spark view of the table after all commits taken; good until the next commit is."""
        return self._tables[oid].view()

    def changes(self, oid: int) -> Changes:
        """The net of what was taken since changes_told()."""
        held = self._tables.get(oid)
        return held.changes() if held is not None and held.phase is Phase.READY else NOTHING

    def changes_told(self) -> None:
        for held in self._tables.values():
            if held.phase is Phase.READY:
                held.told()

    def upkeep(self) -> None:
        """Let compaction and checkpoints go on."""
        self._upkeep.turn(self._tables)

    def close(self) -> None:
        self._loads.close()
        self._upkeep.close()

    def _begin(self, held: Held) -> None:
        committed = self._log.commits.known()
        if held.may_restore:
            held.begin(self._loads.restore(held.table, self._log.history, committed))
        else:
            held.begin(self._loads.begin(held.table, committed))

    def _reload(self, held: Held, reason: str) -> None:
        self._events.warning("table_reloaded", table=held.table.name, reason=reason)
        held.may_restore = False
        self._begin(held)

    def _diverged(self, held: Held, reason: str) -> None:
        now_s = self._clock()
        held.reloads = [at_s for at_s in held.reloads if now_s - at_s < RELOADS_WITHIN_S]
        if len(held.reloads) >= MOST_RELOADS:
            self._give_up(held, reason)
            return
        held.reloads.append(now_s)
        self._reload(held, reason)

    def _give_up(self, held: Held, reason: str) -> None:
        held.drop()
        held.phase = Phase.UNFIT
        self._settled.append(Settled(held.table.oid, "unfit", reason))

    def _settle(self, held: Held) -> None:
        if held.load is None:
            if self._clock() >= held.retry_at_s:
                self._begin(held)
            return
        if not held.load.done():
            return
        try:
            loaded = held.load.result()
        except TableGone:
            self._release_gone(held)
        except (Unfit, psycopg.errors.InsufficientPrivilege) as error:
            self._give_up(held, str(error))
        except PostgresUnreachable as error:
            self._retry(held, str(error))
        except Exception as error:  # of Spark, psycopg or the disk: the load is tried again, then left
            held.failed_loads += 1
            if held.failed_loads >= MOST_FAILED_LOADS:
                self._give_up(held, str(error))
            else:
                self._retry(held, str(error))
        else:
            self._take_over(held, loaded)

    def _take_over(self, held: Held, loaded: Loaded) -> None:
        if loaded.snapshot is None:
            is_passed, fence = self._log.reached > loaded.reached, self._log.reached
        else:
            fence = Lsn(self._log.barriers.get(loaded.barrier_id, ZERO_LSN))
            is_passed = fence > ZERO_LSN
        if not is_passed:
            return
        try:
            held.take(loaded, fence)
        except Diverged as reason:
            self._diverged(held, str(reason))
            return
        except Unstorable as error:
            self._give_up(held, str(error))
            return
        held.failed_loads = 0
        self._events.info("table_loaded", table=held.table.name, rows=loaded.count, restored=loaded.snapshot is None)
        self._settled.append(Settled(held.table.oid, "loaded"))

    def _resolve(self, held: Held) -> None:
        try:
            held.resolve()
        except Diverged as reason:
            self._diverged(held, str(reason))
        except Unstorable as error:
            self._give_up(held, str(error))

    def _retry(self, held: Held, reason: str) -> None:
        self._events.warning("table_not_loaded", table=held.table.name, reason=reason.splitlines()[0])
        held.load, held.retry_at_s = None, self._clock() + RETRY_S

    def _release_gone(self, held: Held) -> None:
        self.release(held.table.oid)
        self._settled.append(Settled(held.table.oid, "gone"))
