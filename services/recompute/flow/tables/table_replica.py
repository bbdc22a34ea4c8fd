"""One table as the worker holds it: being loaded, kept up with the log, or left to PostgreSQL."""

from collections.abc import Sequence
from concurrent.futures import Future
from enum import Enum

from pyspark.sql import DataFrame, SparkSession

from proto.positions import Lsn
from proto.rows import ResultRow
from proto.streams.changes import ChangeUnwritable, RowChanged, SchemaChanged, Truncated
from services.recompute.core.catalog import Table
from services.recompute.core.changed import Changes, Diverged
from services.recompute.core.counted import Counted
from services.recompute.core.overlay import Overlay
from services.recompute.core.storage import is_typed
from services.recompute.loads import Loaded
from services.recompute.outbound.replica import Replica, arrow_rows

# Of these every value that PostgreSQL has can be held.
_SAFE = frozenset(("int2", "int4", "int8", "bool", "text", "varchar", "bpchar", "name", "uuid"))


class Phase(Enum):
    LOADING = "loading"
    READY = "ready"
    UNFIT = "unfit"


class Held:
    def __init__(self, session: SparkSession, table: Table) -> None:
        self._session, self.table = session, table
        self.phase = Phase.LOADING
        self.load: Future[Loaded] | None = None
        # Changes that came while the rows were on their way.
        self.backlog: list[RowChanged | Truncated | ChangeUnwritable | SchemaChanged] = []
        # A checkpoint is as good as PostgreSQL, until something was wrong with the rows.
        self.may_restore = True
        self.retry_at_s = 0.0
        self.reloads: list[float] = []
        self.failed_loads = 0
        self.base_rows = 0
        self.is_checkpointed = False
        self._layer: Overlay | Counted = self._new_layer()
        self._replica = Replica(session, table, table.key)
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
        """Nothing that the overlay holds is still to come from the base."""
        return self._checked == self._layer.version or not self._layer.unresolved()

    def begin(self, load: Future[Loaded]) -> None:
        """Forget the rows and wait for others."""
        self.drop()
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
            self._replica.rest_on(loaded.frame)
        # A TRUNCATE does not heed snapshots: what the copy shows may be from before or behind it. What counts is after.
        for event in events[emptied or 0 :]:
            self.change(event)
        self._layer.told()
        self.base_rows, self.backlog, self.load = loaded.count, [], None
        self.is_checkpointed = loaded.snapshot is None
        self.phase = Phase.READY

    def change(self, event: RowChanged | Truncated | ChangeUnwritable) -> None:
        if isinstance(event, ChangeUnwritable):
            raise Diverged(event.reason)
        self._layer.change(event)

    def resolve(self) -> None:
        """Bring from the base what the overlay needs of it; raises Diverged, or Unstorable for a new value."""
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
            self._view = (self._layer.version, self._replica.view(self._layer))
        return self._view[1]

    def changes(self) -> Changes:
        if self._changes is None or self._changes_of != self._layer.version:
            self._changes, self._changes_of = self._layer.changes(), self._layer.version
        return self._changes

    def told(self) -> None:
        self._layer.told()
        self._changes = None

    def frame(self) -> DataFrame:
        """The rows as they are now; it stays so."""
        return self._replica.frame(self._layer)

    def freeze(self) -> None:
        """What comes from now on is remembered until `rebase`."""
        self._layer.freeze()

    def rebase(self, base: DataFrame, rows: int) -> bool:
        """Stand on a new base, which holds the rows of the moment of `freeze`."""
        if not self._layer.rebase():
            return False
        self._replica.drop()
        self._replica = Replica(self._session, self.table, self.table.key)
        self._replica.rest_on(base)
        self.base_rows, self._view = rows, None
        return True

    def drop(self) -> None:
        """Let the rows go, also those that are still on their way."""
        self._replica.drop()
        if self.load is not None:
            self.load.add_done_callback(_discard)
        self.load = None

    def _look_up(self, asked: Sequence[ResultRow]) -> None:
        if isinstance(self._layer, Overlay):
            self._layer.resolve(self._replica.rows_of(asked))
        else:
            self._layer.resolve(self._replica.counts_of(asked))

    def _new_layer(self) -> Overlay | Counted:
        return Overlay(self.table, self.table.key) if self.table.key else Counted(self.table)


def _discard(load: Future[Loaded]) -> None:
    if not load.cancelled() and load.exception() is None:
        load.result().discard()
