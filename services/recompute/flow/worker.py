"""The worker: queries come and go, commits come in, deltas go out, turn by turn."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
from structlog.typing import FilteringBoundLogger

from proto.streams.changes import HistoryBegan, RowChanged, SchemaChanged, Truncated
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.interest import Interest
from services.recompute.core.live import Failure, LiveQuery, LiveTemplate, Request
from services.recompute.core.parameters import canonical
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.result import State
from services.recompute.core.schema_marks import SchemaMark
from services.recompute.errors import HistoryEnded
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.inbound.queries import Ended, Gained, Lost, Queries, Wanted, Watched
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.planner import Normalised, Planned, Planner
from services.recompute.sourcing import Sourcing
from services.recompute.tables import Settled, Tables
from services.recompute.telling import Telling
from services.recompute.ticking import Ticking

LOG_WAIT_S = 0.02
REMEMBERED_ENDED = 1000
MISSING = frozenset({"42P01", "42703", "3F000"})


class Worker:
    """Owns the queries of its partitions; `turn` is called until the process ends."""

    def __init__(
        self,
        *,
        queries: Queries,
        log: CommitLog,
        deltas: Deltas,
        planner: Planner,
        tables: Tables,
        ticking: Ticking,
        sourcing: Sourcing,
        telling: Telling,
        metrics: Metrics,
        events: FilteringBoundLogger,
        recheck_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted, self._log, self._deltas = queries, log, deltas
        self._planner, self._tables, self._ticking = planner, tables, ticking
        self._sourcing, self._telling = sourcing, telling
        self._metrics, self._events, self._clock = metrics, events, clock
        self._recheck_s, self._next_recheck_s = recheck_s, clock()
        self._queries: dict[bytes, LiveQuery] = {}
        self._templates: dict[bytes, LiveTemplate] = {}
        self._interest = Interest()
        self._told: dict[bytes, State] = {}
        # Of queries that ended: it may only have been an old record that was replayed, and they come again.
        self._ended: OrderedDict[bytes, State] = OrderedDict()
        # Tables that Spark cannot hold, and why.
        self._unfit: dict[int, str] = {}

    def turn(self) -> None:
        """Take in what is at hand, and send what follows from it."""
        for event in self._wanted.read(0):
            match event:
                case Gained(partitions=partitions):
                    self._take_over(partitions)
                case Lost(partitions=partitions):
                    self._give_up(set(partitions))
                case Wanted(partition=partition, query=query):
                    self._want(partition, query)
                case Watched(query=query):
                    self._template(query).watched.add(query.query_id)
                case Ended(query_id=query_id):
                    self._end(query_id)
        self._follow()
        for planned in self._planner.done(self._log.barriers):
            self._planned(planned)
        for normalised in self._planner.normalised():
            self._normalised(normalised)
        for settled in self._tables.settle():
            self._settled(settled)
        self._retry_spark()
        for live in self._ticking.tick(self._templates.values()):
            self._sourcing.track(live)
        self._sourcing.turn()
        for live in self._queries.values():
            if live.requests and not live.template.is_in_doubt:
                self._telling.answer(live, is_current=not live.is_by_postgres or self._sourcing.is_current(live))
        self._recheck()
        self._tables.upkeep()
        for partition in self._deltas.due_for_checkpoint():
            self._deltas.checkpoint(partition, self._states(partition), self._telling.answered)
        self._deltas.poll()

    def _states(self, partition: int) -> dict[bytes, State]:
        """What the readers of a partition were told last, of every query that is known."""
        states = {
            query_id: told for query_id, told in self._told.items() if self._deltas.partition(query_id) == partition
        }
        for live in self._queries.values():
            if live.partition == partition:
                state = live.told if live.result is None else live.result.state
                if state is not None:
                    states[live.id] = state
        return states

    def close(self) -> None:
        self._planner.close()
        self._sourcing.close()
        self._tables.close()

    def _take_over(self, partitions: tuple[int, ...]) -> None:
        for partition, emitted in self._deltas.take_over(partitions, self._log.history).items():
            self._told.update(emitted.states)
            self._telling.answered.add(*emitted.answered)
            self._events.info("partition_taken_over", partition=partition, queries_known=len(emitted.states))

    def _give_up(self, partitions: set[int]) -> None:
        for live in [live for live in self._queries.values() if live.partition in partitions]:
            if self._wanted.is_standby:
                live.template.watched.add(live.id)
            self._end(live.id)
        self._ended.clear()  # the next owner goes on from there
        self._told = {id: told for id, told in self._told.items() if self._deltas.partition(id) not in partitions}
        self._events.info("partitions_given_up", partitions=sorted(partitions))

    def _want(self, partition: int, query: Query) -> None:
        live = self._queries.get(query.query_id)
        if live is None:
            template = self._template(query)
            told = self._told.pop(query.query_id, None) or self._ended.pop(query.query_id, None)
            live = LiveQuery(partition, query, template, told)
            self._queries[live.id] = template.members[live.id] = live
            template.watched.discard(live.id)
            self._metrics.queries.set(len(self._queries))
            if template.refusal is not None:
                self._refuse(live, template.refusal)
            elif template.plan is not None:
                self._begin(template, [live])
        now_s = self._clock()
        # A record names only so many requests: those of one before it are open until they are answered.
        for wanted in query.snapshots:
            if wanted.request_id not in live.requests and wanted.request_id not in self._telling.answered:
                live.requests[wanted.request_id] = Request(wanted, now_s)

    def _template(self, query: Query) -> LiveTemplate:
        template = self._templates.get(query.template_id)
        if template is None:
            template = self._templates[query.template_id] = LiveTemplate(query.template_id, query)
            self._planner.ask(template)
        return template

    def _end(self, query_id: bytes) -> None:
        live = self._queries.pop(query_id, None)
        self._metrics.queries.set(len(self._queries))
        if live is None:
            for template in [one for one in self._templates.values() if query_id in one.watched]:
                template.watched.discard(query_id)
                self._drop_unwanted(template)
            return
        live.suspend()
        if live.told is not None:
            self._ended[query_id] = live.told
            if len(self._ended) > REMEMBERED_ENDED:
                self._ended.popitem(last=False)
        self._sourcing.untrack(query_id)
        del live.template.members[query_id]
        self._drop_unwanted(live.template)

    def _drop_unwanted(self, template: LiveTemplate) -> None:
        if template.is_wanted:
            return
        del self._templates[template.id]
        self._planner.forget(template.id)
        self._interest.forget(template.id)
        self._release(template.reads)

    def _release(self, oids: frozenset[int]) -> None:
        needed = {oid for one in self._templates.values() if one.needs_tables for oid in one.reads}
        for oid in oids - needed:
            self._tables.release(oid)

    def _planned(self, planned: Planned) -> None:
        template = self._templates.get(planned.template_id)
        if template is None:
            return
        if isinstance(planned.outcome, Failure):
            self._refused(template, planned.outcome)
            return
        plan = self._fitting(planned.outcome)
        if plan == template.plan and planned.tables == template.tables and not template.is_in_doubt:
            return
        self._events.info(
            "query_planned", template=template.id.hex(), strategy=plan.strategy.value, why_not=plan.why_not
        )
        before = template.reads
        self._suspend(template)
        template.plan, template.tables, template.refusal = plan, planned.tables, None
        template.is_in_doubt = False
        self._interest.set(template)
        self._ticking.begin_again(template)
        if template.needs_tables:
            for oid in template.reads:
                self._tables.want(template.tables[oid])
        self._release(before - template.reads if template.needs_tables else before)
        self._begin(template, list(template.members.values()))

    def _begin(self, template: LiveTemplate, queries: Sequence[LiveQuery]) -> None:
        """Queries whose template has a plan: PostgreSQL is asked, or their parameters are made ready for Spark."""
        assert template.plan is not None
        unread: list[LiveQuery] = []
        for live in queries:
            live.by_postgres_until_s = None
            if live.is_by_postgres:
                self._sourcing.track(live)
                continue
            template.is_waiting = True
            live.values = canonical(template.plan.parameter_types, live.parameters)
            if live.values is None:
                unread.append(live)
        if unread:
            self._planner.normalise(template, unread)

    def _normalised(self, normalised: Normalised) -> None:
        template = self._templates.get(normalised.template_id)
        if template is None or template.plan is None:
            return
        for query_id, values in normalised.values.items():
            live = template.members.get(query_id)
            if live is None:
                continue
            if isinstance(values, Failure):
                self._telling.fail(live, values)
            else:
                live.values, template.is_waiting = values, True
        unread = [live for live in template.members.values() if live.values is None and live.failure is None]
        if unread and not normalised.values:
            self._planner.normalise(template, unread)

    def _fitting(self, plan: Plan) -> Plan:
        """The plan, or PostgreSQL where Spark cannot hold one of its tables."""
        reason = next((self._unfit[read.table] for read in plan.reads if read.table in self._unfit), None)
        if reason is None or plan.strategy is Strategy.SOURCE:
            return plan
        why_not = plan.why_not | {Strategy.ROW_LOCAL.value: reason, Strategy.FULL.value: reason}
        return msgspec.structs.replace(plan, strategy=Strategy.SOURCE, why_not=why_not, row_local=None, full=None)

    def _refused(self, template: LiveTemplate, refusal: Failure) -> None:
        if refusal.same_as(template.refusal):
            return
        self._events.info("query_refused", template=template.id.hex(), reason=refusal.message)
        before = template.reads
        self._suspend(template)
        self._interest.forget(template.id)
        template.plan, template.tables, template.refusal = None, {}, refusal
        template.is_in_doubt = False
        self._release(before)
        for live in template.members.values():
            self._refuse(live, refusal)

    def _refuse(self, live: LiveQuery, refusal: Failure) -> None:
        if live.told is not None and refusal.sqlstate in MISSING:
            refusal = Failure(refusal.sqlstate, f"Subscription invalidated: {_dropped(refusal.message)}")
        self._telling.fail(live, refusal)

    def _suspend(self, template: LiveTemplate) -> None:
        """Whatever it had is to be computed anew."""
        for live in template.members.values():
            live.suspend()
            self._sourcing.untrack(live.id)

    def _follow(self) -> None:
        """Take whole commits in, and note which templates they concern."""
        for commit in self._log.read(LOG_WAIT_S):
            if isinstance(commit, HistoryBegan):
                if self._templates:
                    raise HistoryEnded(commit.history, commit.because)
                continue
            self._tables.take(commit)
            self._note(commit)

    def _note(self, commit: Commit) -> None:
        rows = [event for event in commit.events if isinstance(event, RowChanged)]
        touched = {template.id: (template, False) for template in self._interest.concerned_by(rows)}
        for event in commit.events:
            if not isinstance(event, RowChanged | SchemaChanged):
                for template in self._interest.readers(event.relation.oid):
                    resets = isinstance(event, Truncated) or touched.get(template.id, (template, False))[1]
                    touched[template.id] = (template, resets)
        for mark in commit.ddl:
            for template in self._schema_changed(mark):
                touched[template.id] = (template, True)
        for template, resets in touched.values():
            template.is_touched = True
            for live in template.members.values():
                self._sourcing.concern(live, commit, resets=resets)

    def _schema_changed(self, mark: SchemaMark) -> list[LiveTemplate]:
        """Any DDL may change what a query means: all are planned anew; those that depend on it wait for that."""
        concerned = [one for one in self._templates.values() if mark.concerns(one)]
        for template in concerned:
            template.is_in_doubt = True
        for oid in {oid for one in concerned for oid in one.reads if mark.touches(one, oid)}:
            self._unfit.pop(oid, None)
            self._tables.reload(oid, mark.command)
        for template in self._templates.values():
            self._planner.ask(template)
        return concerned

    def _settled(self, settled: Settled) -> None:
        self._events.info("table_settled", table=settled.oid, outcome=settled.outcome, reason=settled.reason)
        for template in self._interest.readers(settled.oid):
            if settled.outcome == "loaded":
                for live in template.members.values():
                    if not live.is_by_postgres:
                        live.suspend()
                continue
            if settled.outcome == "unfit":
                self._unfit[settled.oid] = settled.reason
            self._planner.ask(template)

    def _retry_spark(self) -> None:
        """What Spark failed on is tried again after a while: the data may have recovered."""
        now_s = self._clock()
        for live in self._queries.values():
            if live.by_postgres_until_s is not None and now_s >= live.by_postgres_until_s:
                live.by_postgres_until_s = None
                if not live.is_by_postgres:
                    self._sourcing.untrack(live.id)
                    live.suspend()

    def _recheck(self) -> None:
        """Rights, policies and roles may change without a mark in the log."""
        now_s = self._clock()
        if now_s >= self._next_recheck_s:
            self._next_recheck_s = now_s + self._recheck_s
            self._planner.look_at_rights()
        if self._planner.rights_changed():
            for template in self._templates.values():
                self._planner.ask(template)


def _dropped(words: str) -> str:
    """PostgreSQL's words for a missing relation, as a reader who had it will understand them."""
    prefix, suffix = 'relation "', '" does not exist'
    if words.startswith(prefix) and words.endswith(suffix):
        return f"table '{words[len(prefix) : -len(suffix)]}' was dropped"
    return words
