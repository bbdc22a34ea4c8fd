"""The worker: one turn of its loop takes in queries and commits, and writes the deltas that follow."""

import time
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.known_states import KnownStates
from services.recompute.core.live_query import LiveQuery, LiveTemplate
from services.recompute.core.plan import Plan
from services.recompute.core.recent_marks import RecentMarks
from services.recompute.flow.commits import CommitRouter
from services.recompute.flow.failures import Failures
from services.recompute.flow.judge import Judge
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.notify import NotifyQueries
from services.recompute.flow.ownership import Ownership
from services.recompute.flow.plan_results import PlanResults
from services.recompute.flow.planner import Planner
from services.recompute.flow.publisher import Publisher
from services.recompute.flow.rights_check import RightsCheck
from services.recompute.flow.source_runs import SourceRuns
from services.recompute.flow.spark_tick import SparkTick
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.queries import Ended, Gained, Lost, Queries, Wanted, Watched
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.underway import UnderWay


class Worker:
    """Keeps the results of the queries of its partitions; `turn` is called until the process ends."""

    def __init__(
        self,
        *,
        queries: Queries,
        commit_log: CommitLog,
        deltas: Deltas,
        planner: Planner,
        tables: TableSet,
        spark_tick: SparkTick,
        source_runs: SourceRuns,
        publisher: Publisher,
        judge: Judge,
        notify: NotifyQueries,
        under_way: UnderWay,
        failures: Failures,
        metrics: Metrics,
        log: FilteringBoundLogger,
        recheck_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries, self._deltas, self._planner, self._tables = queries, deltas, planner, tables
        self._spark_tick, self._source_runs, self._publisher, self._clock = spark_tick, source_runs, publisher, clock
        self._judge, self._notify = judge, notify
        recent_marks, known_states = RecentMarks(), KnownStates()
        self._live = live = LiveQueries(planner, tables, source_runs, known_states, metrics)
        commit_log.keep_rows_of(live.interest.reads)
        self._ownership = Ownership(deltas, commit_log, publisher, live, known_states, log)
        self._plan_results = PlanResults(
            live,
            planner,
            tables,
            spark_tick,
            source_runs,
            publisher,
            commit_log=commit_log,
            recent_marks=recent_marks,
            under_way=under_way,
            failures=failures,
            log=log,
        )
        self._commits = CommitRouter(
            commit_log,
            tables,
            live,
            self._plan_results,
            planner,
            source_runs,
            judge,
            recent_marks=recent_marks,
            metrics=metrics,
            log=log,
            clock=clock,
        )
        notify.attach(live, self._plan_results, is_current=self._is_current, keep_whole=deltas.append)
        publisher.tell_of_evaluations(notify.evaluated, notify.failed)
        self._commits.tell_of_commits(notify.commit)
        self._rights_check = RightsCheck(planner, live, self._plan_results, recheck_s=recheck_s, clock=clock)

    def turn(self) -> None:
        """Take in what is at hand, and send what follows from it."""
        self._take_queries()
        self._commits.follow()
        self._plan_results.take()
        self._live.retry_spark(self._clock())
        for live in self._spark_tick.tick(self._live.templates):
            self._source_runs.track(live)
        self._source_runs.turn()
        self._judge.turn()
        self._answer_requests()
        self._notify.turn()
        self._rights_check.turn()
        self._tables.compact()
        self._ownership.checkpoint()
        self._deltas.poll()

    def distrust(self, template: LiveTemplate, plan: Plan) -> None:
        """A result of the template was wrong: PostgreSQL computes it from now on."""
        self._plan_results.distrust(template, plan)

    @property
    def live_queries(self) -> LiveQueries:
        """What it keeps, to be looked at."""
        return self._live

    @property
    def tables(self) -> TableSet:
        return self._tables

    def close(self) -> None:
        self._notify.close()
        self._planner.close()
        self._spark_tick.close()
        self._source_runs.close()
        self._tables.close()

    def _take_queries(self) -> None:
        for event in self._queries.read(0):
            match event:
                case Gained(partitions=partitions):
                    self._ownership.take_over(partitions)
                    self._notify.take_over(partitions)
                case Lost(partitions=partitions):
                    self._notify.give_up(partitions)
                    self._ownership.give_up(set(partitions), is_standby=self._queries.is_standby)
                case Wanted(partition=partition, query=query):
                    self._want(partition, query)
                case Watched(query=query):
                    self._live.watch(query)
                case Ended(query_id=query_id):
                    self._live.end(query_id)

    def _want(self, partition: int, query: Query) -> None:
        live = self._live.queries.get(query.query_id)
        if live is None:
            live = self._live.join(partition, query)
            self._plan_results.begin(live)
        now_s = self._clock()
        # A record names only so many requests: those of one before it are open until they are answered.
        for wanted in query.snapshots:
            if wanted.request_id not in self._publisher.answered:
                live.request(wanted, now_s)

    def _answer_requests(self) -> None:
        """Write the whole results that are asked for and known; what Spark's result cannot answer, PostgreSQL will."""
        for live in self._live.queries.values():
            if live.requests and not live.template.is_in_doubt:
                is_by_postgres = live.is_by_postgres
                is_answered = self._publisher.answer(live, is_current=self._is_current(live))
                if not is_answered and not is_by_postgres:
                    live.leave_to_postgres(self._clock())
                    self._source_runs.track(live)

    def _is_current(self, live: LiveQuery) -> bool:
        """Whether its result is the state at the place where the log stands."""
        return self._source_runs.is_current(live) if live.is_by_postgres else live.template.is_current
