"""The replica of one table: being loaded, kept up with the log, or left to PostgreSQL."""

from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from proto.positions import Lsn
from proto.rows import ResultRow
from proto.streams.changes import ChangeUnwritable, RowChanged, SchemaChanged, Truncated
from services.recompute.core.catalog import Table
from services.recompute.core.multiset_overlay import MultisetOverlay
from services.recompute.core.overlay import Overlay
from services.recompute.core.row_changes import Changes, Diverged
from services.recompute.core.storage import is_typed
from services.recompute.flow.tables.table_loader import Loaded
from services.recompute.outbound.spark.base_table import BaseTable, arrow_rows

_pins = count()
# A table that does not fit its log so often within this time is left to PostgreSQL.
MOST_RELOADS = 3
RELOADS_WITHIN_S = 60.0
# Types of which every value that PostgreSQL has can be stored in Spark.
_SAFE = frozenset(("int2", "int4", "int8", "bool", "text", "varchar", "bpchar", "name", "uuid"))


class Phase(Enum):
    LOADING = "loading"
    READY = "ready"
    UNFIT = "unfit"


class Pinned:
    """A table as it stood at one commit, for an evaluation beside the loop."""

    def __init__(self, replica: "TableReplica", name: str, loads: int, base: BaseTable) -> None:
        self.replica, self.name, self.loads, self.base = replica, name, loads, base
        self.table, self.view = replica.table, f"global_temp.{name}"


class TableReplica:
    def __init__(self, session: SparkSession, table: Table, login: str) -> None:
        self._session, self.table, self.login = session, table, login
        self.phase = Phase.LOADING
        self.load: Future[Loaded] | None = None
        # Changes that came while the rows were being loaded.
        self.backlog: list[RowChanged | Truncated | ChangeUnwritable | SchemaChanged] = []
        # Whether it may be loaded from a checkpoint: not after its rows did not fit the log.
        self.may_restore = True
        self.retry_at_s = 0.0
        self._reloads_s: list[float] = []
        self._failed_loads = self.loads = 0
        self.base_rows = 0
        self.is_checkpointed = False
        self._layer: Overlay | MultisetOverlay = self._new_layer()
        self._base = BaseTable(session, table, table.key)
        self._view: tuple[int, str] | None = None
        self._checked = self._changes_of = -1
        self._changes: Changes | None = None
        self._may_fail = any(column.type.name not in _SAFE and is_typed(column.type) for column in table.columns)

    @property
    def overlay_rows(self) -> int:
        return len(self._layer)

    @property
    def is_in_memory(self) -> bool:
        return self._layer.hides_base

    @property
    def is_resolved(self) -> bool:
        """Whether the overlay has looked up all it needs from the base."""
        return self._checked == self._layer.version or not self._layer.unresolved()

    def change_later(self, event: RowChanged | Truncated | ChangeUnwritable | SchemaChanged) -> None:
        """A change that came while the rows are being loaded."""
        self.backlog.append(event)

    def forbid_restore(self) -> None:
        """Something was wrong with the rows: take them from PostgreSQL, not from a checkpoint."""
        self.may_restore = False

    def may_reload(self, now_s: float) -> bool:
        """Whether the table may be loaded again because its rows did not fit the log; counts the reload."""
        self._reloads_s = [at_s for at_s in self._reloads_s if now_s - at_s < RELOADS_WITHIN_S]
        if len(self._reloads_s) >= MOST_RELOADS:
            return False
        self._reloads_s.append(now_s)
        return True

    def load_failed(self) -> int:
        """How many loads have failed one after the other."""
        self._failed_loads += 1
        return self._failed_loads

    def reset_failures(self) -> None:
        self._failed_loads = 0

    def load_again_at(self, retry_at_s: float) -> None:
        self.load, self.retry_at_s = None, retry_at_s

    def set_unfit(self) -> None:
        """The table cannot be held in Spark: PostgreSQL is asked instead."""
        self.drop()
        self.phase = Phase.UNFIT

    def set_checkpointed(self, is_checkpointed: bool) -> None:
        self.is_checkpointed = is_checkpointed

    def begin(self, load: Future[Loaded]) -> None:
        """Drop the rows and wait for a load."""
        self.drop()
        self.loads += 1
        self.phase, self.load, self.backlog = Phase.LOADING, load, []
        self._layer, self._view, self._changes = self._new_layer(), None, None
        self._checked, self.is_checkpointed = -1, False

    def take(self, loaded: Loaded, fence: Lsn) -> None:
        """Build the state from what was loaded and the backlog; raises Diverged or Unstorable."""
        backlog = [event for event in self.backlog if not loaded.sees(event.xid, event.commit_lsn)]
        if any(isinstance(event, SchemaChanged) and event.commit_lsn <= fence for event in backlog):
            raise Diverged("its schema changed while it was loaded")
        events = [*loaded.past, *(event for event in backlog if not isinstance(event, SchemaChanged))]
        emptied = max((at for at, event in enumerate(events) if isinstance(event, Truncated)), default=None)
        if loaded.rows is not None:
            arrow_rows(self.table, loaded.rows)
            self._layer.hold(loaded.rows if emptied is None else ())
        elif loaded.frame is not None:
            self._base.rest_on(loaded.frame)
        # A TRUNCATE takes effect regardless of snapshots: the copy may be from before or after it; what follows counts.
        for event in events[emptied or 0 :]:
            self.change(event)
        self._layer.clear_changes()
        self.base_rows, self.backlog, self.load = loaded.count, [], None
        self.is_checkpointed = loaded.snapshot is None
        self.phase = Phase.READY

    def change(self, event: RowChanged | Truncated | ChangeUnwritable) -> None:
        if isinstance(event, ChangeUnwritable):
            raise Diverged(event.reason)
        self._layer.change(event)

    def resolve(self) -> None:
        """Look up what the overlay needs from the base; raises Diverged, or Unstorable for a new value."""
        if self._checked == self._layer.version:
            return
        asked = self._layer.unresolved()
        if asked:
            self._look_up(asked)
        if self._may_fail:
            arrow_rows(self.table, [row for row, _ in self._layer.changes().rows])
        self._checked = self._layer.version

    def view(self) -> str:
        if self._view is None or self._view[0] != self._layer.version:
            self._view = (self._layer.version, self._base.view(self._layer))
        return self._view[1]

    def changes(self) -> Changes:
        if self._changes is None or self._changes_of != self._layer.version:
            self._changes, self._changes_of = self._layer.changes(), self._layer.version
        return self._changes

    def clear_changes(self) -> None:
        self._layer.clear_changes()
        self._changes = None

    def frame(self) -> DataFrame:
        """The present rows; later changes do not affect the frame."""
        return self._base.frame(self._layer)

    def pin(self, width: int) -> "Pinned":
        """The present rows as a view of their own, in `width` partitions."""
        name = f"tidewire_pinned_{next(_pins)}"
        self.frame().coalesce(width).createGlobalTempView(name)
        return Pinned(self, name, self.loads, self._base)

    def unpin(self, pinned: "Pinned") -> None:
        self._session._jsparkSession.sharedState().globalTempViewManager().remove(pinned.name)

    def is_still(self, pinned: "Pinned", *, same_base: bool) -> bool:
        """Whether the table was not loaded again since then, nor compacted if `same_base`."""
        is_same = self.phase is Phase.READY and pinned.loads == self.loads
        return is_same and (not same_base or pinned.base is self._base)

    def freeze(self) -> None:
        """Record changes from now on separately, until `rebase`."""
        self._layer.freeze()

    def rebase(self, base: DataFrame, rows: int) -> bool:
        """Use a new base, which has the rows of the time of `freeze`."""
        if not self._layer.rebase():
            return False
        self._base.drop()
        self._base = BaseTable(self._session, self.table, self.table.key)
        self._base.rest_on(base)
        self.base_rows, self._view = rows, None
        return True

    def drop(self) -> None:
        """Drop the rows, also those of a load that has not finished."""
        self._base.drop()
        if self.load is not None:
            self.load.add_done_callback(_discard)
        self.load = None

    def _look_up(self, asked: Sequence[ResultRow]) -> None:
        if isinstance(self._layer, Overlay):
            self._layer.resolve(self._base.rows_of(asked))
        else:
            self._layer.resolve(self._base.counts_of(asked))

    def _new_layer(self) -> Overlay | MultisetOverlay:
        return Overlay(self.table, self.table.key) if self.table.key else MultisetOverlay(self.table)


def _discard(load: Future[Loaded]) -> None:
    if not load.cancelled() and load.exception() is None:
        load.result().discard()
