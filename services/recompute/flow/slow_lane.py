"""Evaluates, in a thread beside the loop, templates whose cost is not known or not small: one run at a time."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from services.recompute.core.catalog import Table
from services.recompute.core.job import Failed, Job, Rows
from services.recompute.core.live_query import LiveTemplate
from services.recompute.core.row_changes import NOTHING, Changes
from services.recompute.flow.tables.table_replica import Pinned
from services.recompute.outbound.postgres.subscriber import subscriber_of
from services.recompute.outbound.spark.deadlines import Deadlines
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark

# A first evaluation of so many templates goes into one run.
COMPANY = 64


class PinnedTables:
    """The tables of a run as they stood when it began."""

    def __init__(self) -> None:
        self._pinned: dict[int, Pinned] = {}

    def set(self, tables: Iterable[Pinned]) -> None:
        self._pinned = {pinned.table.oid: pinned for pinned in tables}

    def table(self, oid: int) -> Table:
        return self._pinned[oid].table

    def key(self, oid: int) -> tuple[int, ...]:
        return self._pinned[oid].table.key

    def view(self, oid: int) -> str:
        return self._pinned[oid].view

    def changes(self, oid: int) -> Changes:
        return NOTHING


class SlowLane:
    """Calls return at once; each job of a run has the run's time limit."""

    def __init__(self, spark: Spark, *, max_rows: int, on_stuck: Callable[[str], None]) -> None:
        self._tables, self._limit_s = PinnedTables(), 0.0
        self._deadlines = Deadlines(spark, on_stuck=on_stuck)
        self._evaluation = Evaluation(
            spark,
            self._tables,
            max_rows=max_rows,
            session=spark.slow,
            limit=lambda: self._deadlines.within(self._limit_s),
        )
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="slow")
        self._run: Future[list[Rows | Failed]] | None = None
        self.width = spark.slow_width

    @property
    def is_done(self) -> bool:
        return self._run is not None and self._run.done()

    def begin(self, jobs: Sequence[Job], tables: Iterable[Pinned], limit_s: float) -> None:
        self._tables.set(tables)
        self._limit_s = limit_s
        self._run = self._pool.submit(self._evaluation.whole, jobs)

    def answers(self) -> list[Rows | Failed]:
        """The answers of the finished run."""
        assert self._run is not None
        run, self._run = self._run, None
        return run.result()

    def end(self) -> None:
        """Nobody wants the run's answers any more."""
        self._limit_s = 0.0
        self._deadlines.end()

    def close(self) -> None:
        self.end()
        self._pool.shutdown(wait=False, cancel_futures=True)


class LaneTurns:
    """Chooses what the slow lane runs next: new templates together, others alone, logins in turn."""

    def __init__(self) -> None:
        self._served: dict[str, int] = {}
        self._count = 0
        self._was_alone = True

    def chosen(self, templates: Sequence[LiveTemplate]) -> Sequence[LiveTemplate]:
        """The templates to evaluate next."""
        together = [one for one in templates if not one.lane.is_alone]
        alone = [one for one in templates if one.lane.is_alone]
        if together and (self._was_alone or not alone):
            self._was_alone = False
            return together[:COMPANY]
        self._was_alone = True
        one = min(alone, key=lambda one: self._served.get(subscriber_of(one.query).login, 0))
        self._count += 1
        self._served[subscriber_of(one.query).login] = self._count
        return [one]
