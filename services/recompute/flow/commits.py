"""Takes whole commits in: tables follow them, and templates that they concern are evaluated or planned anew."""

import time
from collections.abc import Callable, Iterator

from structlog.typing import FilteringBoundLogger

from proto.streams.changes import HistoryBegan
from services.recompute.core.live_query import LiveTemplate
from services.recompute.core.recent_marks import RecentMarks
from services.recompute.core.schema_marks import SchemaMark
from services.recompute.errors import HistoryEnded
from services.recompute.flow.judge import Judge
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.plan_results import PlanResults
from services.recompute.flow.planner import Planner
from services.recompute.flow.source_runs import SourceRuns
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.metrics import Metrics

LOG_WAIT_S = 0.02


class CommitRouter:
    """Finds out which templates a commit concerns, by its rows and by its DDL."""

    def __init__(
        self,
        commit_log: CommitLog,
        tables: TableSet,
        live_queries: LiveQueries,
        plan_results: PlanResults,
        planner: Planner,
        source_runs: SourceRuns,
        judge: Judge,
        *,
        recent_marks: RecentMarks,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commit_log, self._tables, self._live_queries = commit_log, tables, live_queries
        self._plan_results, self._planner, self._source_runs, self._judge = plan_results, planner, source_runs, judge
        self._recent_marks, self._metrics, self._log, self._clock = recent_marks, metrics, log, clock
        self._on_commit: Callable[[Commit, list[LiveTemplate]], None] = lambda commit, touched: None
        # Commits behind one that is evaluated for itself.
        self._unread: Iterator[Commit | HistoryBegan] | None = None

    def tell_of_commits(self, on_commit: Callable[[Commit, list[LiveTemplate]], None]) -> None:
        """Call this with each commit and the templates that it concerns."""
        self._on_commit = on_commit

    def follow(self) -> None:
        """Take in the commits at hand, up to one that is judged at; waits shortly for the first one."""
        self._unread = self._unread or self._commit_log.read(LOG_WAIT_S)
        for commit in self._unread:
            if isinstance(commit, HistoryBegan):
                if self._live_queries.templates:
                    raise HistoryEnded(commit.history, commit.because)
                continue
            self._tables.take(commit)
            if self._route(commit):
                return
        self._unread = None

    def _route(self, commit: Commit) -> bool:
        """Returns whether the state behind this very commit is to be evaluated."""
        # Each template with whether the commit did more to its tables than change rows.
        touched = self._live_queries.interest.touched_by(commit.events)
        for mark in commit.ddl:
            if mark.is_unreadable:
                self._metrics.unreadable_marks.inc()
                self._log.warning("mark_unreadable", commit_lsn=commit.position.lsn)
            for template in self._schema_changed(mark):
                touched[template.id] = (template, True)
        for template, resets in touched.values():
            template.touch()
            for live in template.members.values():
                self._source_runs.concern(live, commit, resets=resets)
        self._on_commit(commit, [template for template, _ in touched.values()])
        return any(self._judge.concern(template, commit, resets=resets) for template, resets in touched.values())

    def _schema_changed(self, mark: SchemaMark) -> list[LiveTemplate]:
        """Have all templates planned anew that DDL may give another meaning; those that depend on it wait for that."""
        self._recent_marks.add(self._clock(), mark)
        templates = self._live_queries.templates.values()
        concerned = [one for one in templates if mark.concerns(one)]
        for template in concerned:
            template.doubt()
        for oid in {oid for one in concerned for oid in one.reads if mark.reloads(one, oid)}:
            self._plan_results.table_changed(oid, mark.command)
        for template in templates:
            if mark.may_rename(template):
                self._planner.ask(template)
        return concerned
