"""What becomes of templates when a plan, a refusal or their parameters arrive, or a table of theirs is loaded."""

from collections.abc import Sequence
from functools import partial

from structlog.typing import FilteringBoundLogger

from services.recompute.core.catalog import Table
from services.recompute.core.fitness import Fitness
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate
from services.recompute.core.parameters import canonical
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.recent_marks import RecentMarks
from services.recompute.flow.failures import Failures, dropped
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.planner import Normalised, Planned, Planner
from services.recompute.flow.publisher import Publisher
from services.recompute.flow.source_runs import SourceRuns
from services.recompute.flow.spark_tick import SparkTick
from services.recompute.flow.tables.table_set import Settled, TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.outbound.underway import UnderWay

# SQLSTATEs that say that something the query names is missing.
MISSING = frozenset({"42P01", "42703", "3F000"})
QUARANTINED = "54001"


class PlanResults:
    """Puts templates under their plans, and their queries to where the plan has them evaluated."""

    def __init__(
        self,
        live_queries: LiveQueries,
        planner: Planner,
        tables: TableSet,
        spark_tick: SparkTick,
        source_runs: SourceRuns,
        publisher: Publisher,
        *,
        commit_log: CommitLog,
        recent_marks: RecentMarks,
        under_way: UnderWay,
        failures: Failures,
        log: FilteringBoundLogger,
    ) -> None:
        self._live_queries, self._planner, self._tables = live_queries, planner, tables
        self._spark_tick, self._source_runs, self._publisher = spark_tick, source_runs, publisher
        self._commit_log, self._recent_marks, self._under_way = commit_log, recent_marks, under_way
        self._failures, self._log = failures, log
        self._fitness = Fitness()

    def take(self) -> None:
        """Take in the plans, parameters and tables that have arrived."""
        for planned in self._planner.done(self._commit_log.barriers):
            template = self._live_queries.templates.get(planned.template_id)
            if template is not None:
                with self._failures.caught("plan", template, partial(self.refuse, template)):
                    self._planned(template, planned)
        for normalised in self._planner.normalised():
            self._normalised(normalised)
        for settled in self._tables.settle():
            self._settled(settled)

    def begin(self, live: LiveQuery) -> None:
        """A new query of a template that may be planned or refused already."""
        template = live.template
        if template.refusal is not None:
            self._refuse_query(live, template.refusal)
            if template.refusal.sqlstate == QUARANTINED and not self._under_way.quarantined_for_s(template.id):
                self._planner.ask(template)
        elif template.plan is not None:
            self._evaluate(template, [live])

    def refuse(self, template: LiveTemplate, refusal: Failure) -> None:
        if refusal == template.refusal:
            return
        self._log.info("query_refused", template=template.id.hex(), reason=refusal.message)
        before = template.reads
        self._live_queries.suspend(template)
        self._live_queries.interest.forget(template.id)
        template.refuse(refusal)
        self._live_queries.release(before)
        for live in template.members.values():
            self._refuse_query(live, refusal)

    def table_changed(self, oid: int, reason: str) -> None:
        """DDL touched the table: it is loaded again, and Spark may be able to hold it now."""
        self._fitness.may_fit(oid)
        self._tables.reload(oid, reason)

    def _planned(self, template: LiveTemplate, planned: Planned) -> None:
        template.verify_rights(planned.began_s)
        known = template.plan if isinstance(planned.outcome, Failure) else planned.outcome
        depends_on = frozenset() if known is None else known.depends_on
        if self._recent_marks.outdate(planned.began_s, depends_on, planned.tables or template.tables):
            return
        if isinstance(planned.outcome, Failure):
            self.refuse(template, planned.outcome)
            return
        plan = self._fitness.fitting(template, planned.outcome)
        if plan.strategy is not Strategy.SOURCE and self._is_quarantined(template):
            return
        if plan == template.plan and planned.tables == template.tables and not template.is_in_doubt:
            return
        self._adopt(template, plan, planned.tables)

    def distrust(self, template: LiveTemplate, plan: Plan) -> None:
        """A result of it was wrong: PostgreSQL computes it from now on."""
        self._fitness.distrust(template)
        self._adopt(template, self._fitness.fitting(template, plan), template.tables)

    def _adopt(self, template: LiveTemplate, plan: Plan, tables: dict[int, Table]) -> None:
        self._log.info("query_planned", template=template.id.hex(), strategy=plan.strategy.value, why_not=plan.why_not)
        before = template.reads
        self._live_queries.suspend(template)
        template.set_plan(plan, tables)
        self._live_queries.interest.set(template)
        self._spark_tick.begin_again(template)
        if template.needs_tables:
            for oid in template.reads:
                self._tables.want(template.tables[oid], login=template.login)
        self._live_queries.release(before - template.reads if template.needs_tables else before)
        self._evaluate(template, list(template.members.values()))

    def _is_quarantined(self, template: LiveTemplate) -> bool:
        """Whether it is refused because of how the worker ended; one that is only suspected is evaluated alone."""
        if self._under_way.is_suspect(template.id):
            template.lane.set_alone(True)
        left_s = self._under_way.quarantined_for_s(template.id)
        if left_s is None:
            return False
        if template.refusal is None:
            self._failures.note("quarantine", template, "it was under way at two ends of the worker")
        message = f"the query was under way when the worker ended, twice: subscribe again in {left_s:.0f} s"
        self.refuse(template, Failure(QUARANTINED, message))
        return True

    def _evaluate(self, template: LiveTemplate, queries: Sequence[LiveQuery]) -> None:
        """Queries whose template has a plan: PostgreSQL runs them, or their parameters are made ready for Spark."""
        assert template.plan is not None
        unread: list[LiveQuery] = []
        for live in queries:
            live.follow_plan()
            if live.is_by_postgres:
                self._source_runs.track(live)
                continue
            live.set_values(canonical(template.plan.parameter_types, live.parameters))
            if live.values is None:
                unread.append(live)
        if unread:
            self._planner.normalise(template, unread)

    def _normalised(self, normalised: Normalised) -> None:
        template = self._live_queries.templates.get(normalised.template_id)
        if template is None or template.plan is None:
            return
        for query_id, values in normalised.values.items():
            live = template.members.get(query_id)
            if live is None:
                continue
            if isinstance(values, Failure):
                self._publisher.fail(live, values)
            else:
                live.set_values(values)
        unread = [live for live in template.members.values() if live.values is None and live.failure is None]
        if unread and not normalised.values:
            self._planner.normalise(template, unread)

    def _refuse_query(self, live: LiveQuery, refusal: Failure) -> None:
        if live.told is not None and refusal.sqlstate in MISSING:
            refusal = Failure(refusal.sqlstate, f"Subscription invalidated: {dropped(refusal.message)}")
        self._publisher.fail(live, refusal)

    def _settled(self, settled: Settled) -> None:
        """A table was loaded, is gone, or cannot be held in Spark."""
        self._log.info("table_settled", table=settled.oid, outcome=settled.outcome, reason=settled.reason)
        for template in self._live_queries.interest.readers(settled.oid):
            if settled.outcome == "loaded":
                for live in template.members.values():
                    if not live.is_by_postgres:
                        live.suspend()
                continue
            if settled.outcome == "unfit":
                self._fitness.unfit(settled.oid, settled.reason)
            self._planner.ask(template)
