"""A tick: evaluates the templates that the latest commits touched in few Spark jobs, and publishes the changes."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from msgspec import Struct

from proto.rows import ResultRow
from services.recompute.core.job import Failed, Job, Rows, Signed
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.result import Position
from services.recompute.errors import is_of_the_process
from services.recompute.flow.failures import Failures
from services.recompute.flow.incremental_lane import IncrementalLane
from services.recompute.flow.publisher import Publisher
from services.recompute.flow.slow_lane import LaneTurns, SlowLane
from services.recompute.flow.tables.table_replica import Pinned
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.underway import UnderWay

Answer = TypeVar("Answer", Rows, Signed)
Answers: TypeAlias = list[Answer | Failed]

LONGEST_REASON = 500
# A template whose job took longer than this is not evaluated in the loop.
SHARED_BELOW_S = 1.0
# After its deadline Spark is not tried again before this.
OVERDUE_REST_S = 60.0


class Asked(Struct, frozen=True):
    """A job, and the queries that its tuples stand for."""

    template: LiveTemplate
    queries: Sequence[LiveQuery]
    job: Job
    in_loop: bool


class Run(Struct, frozen=True):
    """What the slow lane evaluates now, and the commit that its tables were pinned at."""

    asked: Sequence[Asked]
    tables: dict[int, Pinned]
    position: Position

    def pin(self, oid: int, table: Pinned) -> None:
        self.tables[oid] = table


class JobDeadlines(Struct, frozen=True, kw_only=True):
    """How long a job may take: in the loop, of several templates in the slow lane, and of one alone in it."""

    tick_s: float
    company_s: float
    alone_s: float


class SparkTick:
    """Decides which template needs which job and where, and turns answers into deltas."""

    def __init__(
        self,
        evaluation: Evaluation,
        slow: SlowLane,
        tables: TableSet,
        commit_log: CommitLog,
        publisher: Publisher,
        *,
        under_way: UnderWay,
        failures: Failures,
        metrics: Metrics,
        limits: JobDeadlines,
        incremental: IncrementalLane | None,
        clock_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._evaluation, self._slow, self._tables = evaluation, slow, tables
        self._commit_log, self._publisher, self._under_way = commit_log, publisher, under_way
        self._failures, self._metrics, self._limits = failures, metrics, limits
        self._incremental = incremental
        self._clock_interval_s, self._clock, self._wall_us = clock_interval_s, clock, wall_us
        self._run: Run | None = None
        # The failures of a run that could not be started.
        self._unbegun: list[Rows | Failed] = []
        self._turns = LaneTurns()

    def tick(self, templates: Mapping[bytes, LiveTemplate]) -> list[LiveQuery]:
        """Bring results to where the log stands; returns the queries that Spark could not evaluate."""
        began_s = self._clock()
        failed = self._slow_answers()
        if self._incremental is not None:
            failed += self._left(self._incremental.turn(templates))
        active = [one for one in templates.values() if one.is_touched or one.is_waiting or self.is_due(one)]
        ready = [one for one in active if self._is_ready(one) and not self._is_kept(one)]
        shared = [one for one in ready if not one.lane.is_in]
        changed = [asked for template in shared for asked in self._row_local(template)]
        whole = [asked for template in shared for asked in self._whole(template)]
        for template in shared:
            template.evaluation_begun()
        if changed or whole:
            failed += self._evaluated(changed, whole)
            self._metrics.ticks.inc()
            self._metrics.tick_seconds.observe(self._clock() - began_s)
        self._tables.clear_changes()
        if self._incremental is not None:
            self._incremental.advance(templates.values())
        self._begin_slow([one for one in ready if one.lane.is_in and not one.lane.is_under_way])
        return failed

    def is_due(self, template: LiveTemplate) -> bool:
        """Whether a query that reads the clock is to be evaluated again."""
        return template.next_moment_s is not None and self._clock() >= template.next_moment_s

    def begin_again(self, template: LiveTemplate) -> None:
        """Schedule the next evaluation of a template that reads the clock."""
        reads_clock = template.plan is not None and template.plan.reads_clock
        template.set_next_moment(self._clock() + self._clock_interval_s if reads_clock else None)

    def close(self) -> None:
        self._slow.close()
        if self._incremental is not None:
            self._incremental.close()

    def _evaluated(self, changed: Sequence[Asked], whole: Sequence[Asked]) -> list[LiveQuery]:
        """Evaluate in the loop; a failure while taking the answer of one template does not affect others."""
        failed: list[LiveQuery] = []
        self._under_way.begin("shared", {one.template.id for one in (*changed, *whole)})
        if changed:
            evaluate = partial(self._evaluation.changed, [one.job for one in changed])
            for asked, signed in zip(changed, self._caught(changed, evaluate), strict=True):
                failed += self._taken(asked, partial(self._moved, asked, signed))
        if whole:
            position = self._commit_log.position
            evaluate_whole = partial(self._evaluation.whole, [one.job for one in whole])
            for asked, rows in zip(whole, self._caught(whole, evaluate_whole), strict=True):
                failed += self._taken(asked, partial(self._answered, asked, rows, position))
        self._under_way.clear("shared")
        return failed

    def _caught(self, asked: Sequence[Asked], evaluate: Callable[[], Answers[Answer]]) -> Answers[Answer]:
        """The answers; an error of the whole evaluation is a failure of every template in it."""
        try:
            return list(evaluate())
        except Exception as error:
            if is_of_the_process(error):
                raise
            # The note of what is under way must stay if the JVM is gone.
            self._evaluation.refuse_lost()
            return [Failed(repr(error)[:LONGEST_REASON])] * len(asked)

    def _taken(self, asked: Asked, take: Callable[[], list[LiveQuery]]) -> list[LiveQuery]:
        failed: list[LiveQuery] = []

        def fail(failure: Failure) -> None:
            failed.extend(self._left(asked.queries))

        with self._failures.caught("evaluate", asked.template, fail):
            failed += take()
        return failed

    def _begin_slow(self, templates: Sequence[LiveTemplate]) -> None:
        """Start the next run of the slow lane if it is idle."""
        if self._run is not None or not templates:
            return
        chosen = self._turns.chosen(templates)
        asked = [one for template in chosen for one in self._whole(template)]
        for template in chosen:
            template.evaluation_begun()
        if not asked:
            return
        oids = {oid for one in asked for oid in one.template.reads}
        self._run = run = Run(asked, {}, self._commit_log.position)
        for one in asked:
            one.template.lane.begin()
        is_alone = len(asked) == 1 and asked[0].template.lane.is_alone
        self._under_way.begin("slow", [one.template.id for one in asked])
        limit_s = self._limits.alone_s if is_alone else self._limits.company_s

        def begin() -> list[Rows | Failed]:
            for oid in oids:
                run.pin(oid, self._tables.pin(oid, self._slow.width))
            self._slow.begin([one.job for one in asked], run.tables.values(), limit_s)
            return []

        self._unbegun = self._caught(asked, begin)

    def _slow_answers(self) -> list[LiveQuery]:
        """Take the answers of the slow lane."""
        run = self._run
        if run is None:
            return []
        if not self._unbegun and not self._slow.is_done:
            if not any(asked.template.members for asked in run.asked):
                self._slow.end()
            return []
        answers: list[Rows | Failed] = self._unbegun
        if not answers:
            answers = self._caught(run.asked, self._slow.answers)
        self._run, self._unbegun = None, []
        self._under_way.clear("slow")
        failed: list[LiveQuery] = []
        for asked, answer in zip(run.asked, answers, strict=True):
            asked.template.lane.end()
            failed += self._taken(asked, partial(self._slow_answer, run, asked, answer))
        for pinned in run.tables.values():
            self._tables.unpin(pinned)
        return failed

    def _slow_answer(self, run: Run, asked: Asked, answer: Rows | Failed) -> list[LiveQuery]:
        template, lane = asked.template, asked.template.lane
        is_failed = isinstance(answer, Failed)
        pinned = [run.tables[read.table] for read in asked.job.plan.reads if read.table in run.tables]
        is_still = all(self._tables.is_still(one, same_base=is_failed) for one in pinned)
        if self._is_kept(template):
            return []  # operators have led it further meanwhile
        if template.plan is not asked.job.plan or template.is_in_doubt or not is_still:
            template.evaluate_again()  # its plan or its tables have changed since
            return []
        failed = self._answered(asked, answer, run.position)
        if isinstance(answer, Rows) and not lane.is_behind:
            self._under_way.succeeded([template.id])
            self._grade(asked, answer.took_s)
        return failed

    def _grade(self, asked: Asked, took_s: float) -> None:
        """Decide by its cost whether it is evaluated in the loop from now on."""
        template, plan = asked.template, asked.job.plan
        is_costly = took_s >= SHARED_BELOW_S
        # Of a row-local template only the changed rows are looked at from now on, if none was missed meanwhile.
        if plan.row_local is not None and not plan.reads_clock and not template.is_touched:
            is_costly = False
        asked.template.lane.grade(is_costly=is_costly, is_behind=template.is_touched, now_s=self._clock())

    def _is_ready(self, template: LiveTemplate) -> bool:
        plan = template.plan
        if plan is None or plan.strategy is Strategy.SOURCE or template.is_in_doubt:
            return False
        return all(self._tables.is_ready(oid) for oid in template.reads)

    def _is_kept(self, template: LiveTemplate) -> bool:
        return self._incremental is not None and self._incremental.keeps(template)

    def _row_local(self, template: LiveTemplate) -> Iterator[Asked]:
        assert template.plan is not None
        if template.is_touched and not self._is_evaluated_whole(template, template.plan):
            queries = list(template.with_result())
            if queries:
                yield self._asked(template, template.plan, queries, self._commit_log.position.moment_us)

    def _whole(self, template: LiveTemplate) -> Iterator[Asked]:
        plan = template.plan
        assert plan is not None
        queries = list(template.without_result())
        is_stale = template.is_touched or template.lane.is_behind or self.is_due(template)
        if is_stale and self._is_evaluated_whole(template, plan):
            queries += template.with_result()
            self.begin_again(template)
        if queries:
            moment_us = (
                template.moment_after(self._wall_us()) if plan.reads_clock else self._commit_log.position.moment_us
            )
            yield self._asked(template, plan, queries, moment_us)

    def _is_evaluated_whole(self, template: LiveTemplate, plan: Plan) -> bool:
        """Whether looking at the changed rows is not enough."""
        if plan.reads_clock or plan.row_local is None or template.lane.is_in or template.lane.is_behind:
            return True
        return self._tables.changes(plan.row_local.table).emptied

    @staticmethod
    def _asked(template: LiveTemplate, plan: Plan, queries: list[LiveQuery], moment_us: int) -> Asked:
        tuples = tuple(one.values for one in queries if one.values is not None)
        settings = template.query.text_settings
        job = Job(plan=plan, settings=settings, tuples=tuples, moment_us=moment_us)
        return Asked(template, queries, job, in_loop=not template.lane.is_in)

    def _moved(self, asked: Asked, answer: Signed | Failed) -> list[LiveQuery]:
        if isinstance(answer, Failed):
            return list(self._gave_up(asked, asked.queries, answer))
        row_local = asked.job.plan.row_local
        assert row_local is not None
        keys = self._tables.changes(row_local.table).keys if self._tables.key(row_local.table) else None
        failed: list[LiveQuery] = []
        for live, found in zip(asked.queries, answer.found, strict=True):
            if isinstance(found, Failed):
                failed += self._gave_up(asked, [live], found)
                continue
            assert live.result is not None
            net = _weighed(found) if keys is None or live.by_key is None else _by_key(live.by_key, keys, found)
            if not self._publisher.publish(live, live.result.change(net, self._commit_log.position)):
                failed += self._left([live])
        return failed

    def _answered(self, asked: Asked, answer: Rows | Failed, log_position: Position) -> list[LiveQuery]:
        if isinstance(answer, Failed):
            return list(self._gave_up(asked, asked.queries, answer))
        plan = asked.job.plan
        position = asked.template.position(log_position, asked.job.moment_us)
        is_keyed = plan.row_local is not None and bool(self._tables.key(plan.row_local.table))
        failed: list[LiveQuery] = []
        for live, found in zip(asked.queries, answer.found, strict=True):
            if asked.template.members.get(live.id) is not live or live.is_by_postgres:
                continue  # it ended during the evaluation
            if isinstance(found, Failed):
                failed += self._gave_up(asked, [live], found)
                continue
            live.set_by_key(dict(found) if is_keyed else None)
            if not self._publisher.publish_rows(live, [row for _, row in found], position):
                failed += self._left([live])
        return failed

    def _gave_up(self, asked: Asked, queries: Sequence[LiveQuery], answer: Failed) -> Sequence[LiveQuery]:
        template, lane = asked.template, asked.template.lane
        if answer.is_overdue and asked.in_loop:
            # It, or another template of the same job, is too slow for the loop: the slow lane finds out which.
            if not lane.is_in:
                self._failures.note("deadline", template, f"left the loop: {answer.reason}")
                lane.enter(self._clock())
            lane.set_alone(answer.was_alone)
            template.wait_for_first_result()
            return []
        if answer.is_overdue and not lane.is_alone:
            lane.set_alone(True)
            template.evaluate_again()
            return []
        stage = "deadline" if answer.is_overdue else "evaluate"
        self._failures.note(stage, template, answer.reason, queries=len(queries))
        return self._left(queries, OVERDUE_REST_S if answer.is_overdue else 0.0)

    def _left(self, queries: Sequence[LiveQuery], at_least_s: float = 0.0) -> Sequence[LiveQuery]:
        """Leave the queries to PostgreSQL."""
        for live in queries:
            live.leave_to_postgres(self._clock(), at_least_s=at_least_s)
        return queries


def _weighed(found: Iterable[tuple[ResultRow, ResultRow, int]]) -> dict[ResultRow, int]:
    moved: Counter[ResultRow] = Counter()
    for _, row, weight in found:
        moved[row] += weight
    return {row: weight for row, weight in moved.items() if weight}


def _by_key(
    held: dict[ResultRow, ResultRow],
    keys: Iterable[ResultRow],
    found: Iterable[tuple[ResultRow, ResultRow, int]],
) -> dict[ResultRow, int]:
    """The net change of the result: `keys` have the rows that were found now, or no row."""
    now = {key: row for key, row, _ in found}
    moved: Counter[ResultRow] = Counter()
    for key in keys:
        before, after = held.pop(key, None), now.get(key)
        if before is not None:
            moved[before] -= 1
        if after is not None:
            moved[after] += 1
            held[key] = after
    return {row: weight for row, weight in moved.items() if weight}
