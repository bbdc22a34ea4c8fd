"""A tick: the templates that a stretch of commits touched are evaluated in few Spark jobs, and what changed is told."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.rows import ResultRow
from proto.tidewire.v1.deltas_pb2 import ResultColumn
from services.recompute.core.job import Failed, Job, Rows, Signed
from services.recompute.core.live import LiveQuery, LiveTemplate
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.result import Result
from services.recompute.inbound.changes import CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.evaluation import Evaluation
from services.recompute.tables import Tables
from services.recompute.telling import Telling


class Asked(Struct, frozen=True):
    """A job, and the queries that its tuples stand for."""

    template: LiveTemplate
    queries: Sequence[LiveQuery]
    job: Job


class Ticking:
    """Decides which template needs which job, and turns answers into deltas."""

    def __init__(
        self,
        evaluation: Evaluation,
        tables: Tables,
        log: CommitLog,
        telling: Telling,
        *,
        metrics: Metrics,
        events: FilteringBoundLogger,
        clock_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._evaluation, self._tables, self._log, self._telling = evaluation, tables, log, telling
        self._metrics, self._events = metrics, events
        self._clock_interval_s, self._clock, self._wall_us = clock_interval_s, clock, wall_us

    def tick(self, templates: Iterable[LiveTemplate]) -> list[LiveQuery]:
        """Bring all results to where the log stands; returns the queries that Spark could not evaluate."""
        began_s = self._clock()
        active = [one for one in templates if one.is_touched or one.is_waiting or self.is_due(one)]
        ready = [one for one in active if self._is_ready(one)]
        changed = [asked for template in ready for asked in self._row_local(template)]
        whole = [asked for template in ready for asked in self._whole(template)]
        failed: list[LiveQuery] = []
        if changed:
            for asked, answer in zip(changed, self._evaluation.changed([one.job for one in changed]), strict=True):
                failed += self._moved(asked, answer)
        if whole:
            for asked, rows in zip(whole, self._evaluation.whole([one.job for one in whole]), strict=True):
                failed += self._answered(asked, rows)
        for template in ready:
            template.is_touched = template.is_waiting = False
        self._tables.changes_told()
        if changed or whole:
            self._metrics.ticks.inc()
            self._metrics.tick_seconds.observe(self._clock() - began_s)
        return failed

    def is_due(self, template: LiveTemplate) -> bool:
        """Whether the clock alone asks for a new evaluation."""
        return template.next_moment_s is not None and self._clock() >= template.next_moment_s

    def begin_again(self, template: LiveTemplate) -> None:
        """The next moment of a query that reads the clock."""
        reads_clock = template.plan is not None and template.plan.reads_clock
        template.next_moment_s = self._clock() + self._clock_interval_s if reads_clock else None

    def _is_ready(self, template: LiveTemplate) -> bool:
        plan = template.plan
        if plan is None or plan.strategy is Strategy.SOURCE or template.is_in_doubt:
            return False
        return all(self._tables.is_ready(oid) for oid in template.reads)

    def _row_local(self, template: LiveTemplate) -> Iterator[Asked]:
        assert template.plan is not None
        if template.is_touched and not self._is_evaluated_whole(template.plan):
            queries = list(template.with_result())
            if queries:
                yield self._asked(template, template.plan, queries, self._log.position.moment_us)

    def _whole(self, template: LiveTemplate) -> Iterator[Asked]:
        plan = template.plan
        assert plan is not None
        queries = list(template.without_result())
        if self._is_evaluated_whole(plan) and (template.is_touched or self.is_due(template)):
            queries += template.with_result()
            self.begin_again(template)
        if queries:
            moment_us = template.moment_after(self._wall_us()) if plan.reads_clock else self._log.position.moment_us
            yield self._asked(template, plan, queries, moment_us)

    def _is_evaluated_whole(self, plan: Plan) -> bool:
        """Whether looking at the changed rows is not enough."""
        return plan.reads_clock or plan.row_local is None or self._tables.changes(plan.row_local.table).emptied

    @staticmethod
    def _asked(template: LiveTemplate, plan: Plan, queries: list[LiveQuery], moment_us: int) -> Asked:
        tuples = tuple(one.values for one in queries if one.values is not None)
        settings = template.query.text_settings
        return Asked(template, queries, Job(plan=plan, settings=settings, tuples=tuples, moment_us=moment_us))

    def _moved(self, asked: Asked, answer: Signed | Failed) -> list[LiveQuery]:
        if isinstance(answer, Failed):
            return list(self._gave_up(asked.template, asked.queries, answer))
        row_local = asked.job.plan.row_local
        assert row_local is not None
        keys = self._tables.changes(row_local.table).keys if self._tables.key(row_local.table) else None
        failed: list[LiveQuery] = []
        for live, found in zip(asked.queries, answer.found, strict=True):
            if isinstance(found, Failed):
                failed += self._gave_up(asked.template, [live], found)
                continue
            assert live.result is not None
            net = _weighed(found) if keys is None or live.by_key is None else _by_key(live.by_key, keys, found)
            self._telling.tell(live.result.change(net, self._log.position))
        return failed

    def _answered(self, asked: Asked, answer: Rows | Failed) -> list[LiveQuery]:
        if isinstance(answer, Failed):
            return list(self._gave_up(asked.template, asked.queries, answer))
        plan = asked.job.plan
        position = asked.template.position(self._log.position, asked.job.moment_us)
        is_keyed = plan.row_local is not None and bool(self._tables.key(plan.row_local.table))
        failed: list[LiveQuery] = []
        for live, found in zip(asked.queries, answer.found, strict=True):
            if isinstance(found, Failed):
                failed += self._gave_up(asked.template, [live], found)
                continue
            live.by_key = dict(found) if is_keyed else None
            rows = [row for _, row in found]
            if live.result is None:
                live.result = new_result(live, plan, self._log.history)
                self._telling.tell(live.result.begin(rows, position, live.told))
                live.told, live.failure = None, None
            else:
                self._telling.tell(live.result.replace(rows, position))
        return failed

    def _gave_up(self, template: LiveTemplate, queries: Sequence[LiveQuery], answer: Failed) -> Sequence[LiveQuery]:
        self._events.warning("spark_gave_up", template=template.id.hex(), queries=len(queries), reason=answer.reason)
        for live in queries:
            live.leave_to_postgres(self._clock())
        return queries


def new_result(live: LiveQuery, plan: Plan, history: int) -> Result:
    columns = [
        ResultColumn(name=column.name, type_oid=column.type.oid, type_modifier=column.type.modifier)
        for column in plan.columns
    ]
    return Result(live.id, history, columns, plan.key_positions, ordered=plan.ordered)


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
    """What changes where these keys have these rows now, and none where nothing was found."""
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
