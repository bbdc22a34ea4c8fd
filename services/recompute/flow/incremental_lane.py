"""Templates that are kept by incremental operators: from their plan to live operators, tick by tick.

A template goes through these states: its operators are planned (beside the loop), its tables are held (one job each,
beside the loop), its first state is built (beside the loop), and then it is live. Until then, and whenever something
does not fit, it is evaluated whole as if there were no operators; what its readers were told is compared with the
operators' first rows, so that going over is a change like any other.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TypeAlias

from structlog.typing import FilteringBoundLogger

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.job import Job
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate
from services.recompute.core.row_changes import Changes
from services.recompute.flow.failures import Failures
from services.recompute.flow.incremental_states import HeldTable, Kept, Stage
from services.recompute.flow.publisher import Publisher
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.spark.incremental import LostTable, Moved, Operators, Refused, is_fit
from services.recompute.outbound.underway import OPERATORS, UnderWay

RETRY_S = 30.0
FULL_RETRY_S = 600.0
WEIGHED_EVERY_S = 1.0
IS_FULL = "[recompute] incremental_mb is reached"
# More changed rows during a load cost more than a load that begins later.
MOST_MISSED_ROWS = 200_000
# About what the operators keep for a row and for each of its columns.
ROW_BYTES, COLUMN_BYTES = 160, 8

ChangedTables: TypeAlias = Mapping[int, tuple[Table, Changes]]
ChangedTuples: TypeAlias = Mapping[int, tuple[tuple[PgType, ...], list[tuple[int, ResultRow, int]]]]


class IncrementalLane:
    """`turn` before other evaluations, while changes are there; `advance` when they are cleared."""

    def __init__(
        self,
        operators: Operators,
        tables: TableSet,
        commit_log: CommitLog,
        publisher: Publisher,
        metrics: Metrics,
        log: FilteringBoundLogger,
        *,
        under_way: UnderWay,
        failures: Failures,
        memory_mb: int,
        max_rows: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._operators, self._tables, self._commit_log, self._publisher = operators, tables, commit_log, publisher
        self._metrics, self._log, self._clock = metrics, log, clock
        self._under_way, self._failures = under_way, failures
        self._most_bytes, self._max_rows = memory_mb << 20, max_rows
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="operators")
        self._kept: dict[bytes, Kept] = {}
        self._held: dict[int, HeldTable] = {}
        self._numbers = count()
        self._weighed_at_s = 0.0
        self._noted: set[bytes] = set()

    def keeps(self, template: LiveTemplate) -> bool:
        """Whether all of its results are as the operators have them."""
        kept = self._kept.get(template.id)
        return kept is not None and kept.plan is template.plan and kept.is_complete()

    def turn(self, templates: Mapping[bytes, LiveTemplate]) -> list[LiveQuery]:
        """Bring the results of live templates to where the log stands; returns the queries that could not be told."""
        self._drop_outdated(templates)
        failed: list[LiveQuery] = []
        for oid in [oid for oid, held in self._held.items() if not held.is_held and held.load.done()]:
            failed += self._loaded(oid)
        changes = self._changes()
        tuples = {
            kept.number: (kept.plan.parameter_types, found)
            for kept in self._kept.values()
            if (found := kept.moved_tuples())
        }
        is_built = any(one.stage is Stage.BUILDING and one.work and one.work.done() for one in self._kept.values())
        if changes or tuples or is_built:
            failed += self._ticked(changes, tuples)
        for kept in list(self._kept.values()):
            failed += self._caught(kept, partial(self._fresh, kept))
            if kept.is_complete():
                kept.template.evaluation_begun()
        return failed

    def advance(self, templates: Iterable[LiveTemplate]) -> None:
        """Start what has to be done beside the loop, with the tables as they are now."""
        for template in templates:
            self._begin(template)
        for kept in list(self._kept.values()):
            if kept.stage is Stage.REFUSED and self._clock() >= kept.retry_at_s:
                del self._kept[kept.template.id]
            elif kept.work is not None and kept.work.done():
                self._worked(kept)
            try:
                if kept.stage is Stage.PLANNED and kept.work is None and self._has_tables(kept):
                    self._operators.pin(kept.number)
                    kept.work_on(Stage.BUILDING, self._pool.submit(self._operators.build, kept.number))
            except Refused as error:
                self._refuse(kept, str(error), RETRY_S)
        self._weigh()
        self._note(())

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, template: LiveTemplate) -> None:
        plan = template.plan
        if plan is None or plan.live is None or plan.reads_clock or template.id in self._kept or template.is_in_doubt:
            return
        if not all(self._tables.is_ready(oid) for oid in template.reads) or self._under_way.is_barred(template.id):
            return
        # A first result comes from where it comes now; operators are made behind it.
        if not any(one.result is not None for one in template.members.values()):
            return
        kept = self._kept[template.id] = Kept(next(self._numbers), template, plan)
        if plan.live.by_tuple:
            self._refuse(kept, "its tuples are not shared", float("inf"))
            return
        job = Job(plan=plan, settings=template.query.text_settings, tuples=(), moment_us=0)
        work = self._pool.submit(self._operators.plan, kept.number, job, dict(template.tables))
        kept.work_on(Stage.PLANNING, work)

    def _worked(self, kept: Kept) -> None:
        work = kept.work
        assert work is not None
        error = work.exception()
        if error is not None:
            if not isinstance(error, Refused):
                self._failures.note("operators", kept.template, repr(error), exc_info=error)
            self._refuse(kept, str(error), float("inf") if kept.stage is Stage.PLANNING else RETRY_S)
        elif kept.stage is Stage.PLANNING:
            kept.reach(Stage.PLANNED)

    def _has_tables(self, kept: Kept) -> bool:
        """Whether all tables are held; loads those that are not. One that is being loaded again has no rows yet."""
        if not all(self._tables.is_ready(oid) for oid in kept.template.reads):
            return False
        for oid in kept.template.reads:
            if oid in self._held:
                continue
            table = self._tables.table(oid)
            if not is_fit(table):
                self._refuse(kept, "a key of floats", float("inf"))
                return False
            room = self._most_bytes - self._operators.bytes()
            if self._tables.rows(oid) * (ROW_BYTES + COLUMN_BYTES * len(table.columns)) > room:
                self._refuse(kept, IS_FULL, FULL_RETRY_S)
                return False
            load = self._pool.submit(self._operators.load, table, self._tables.frame(oid), room)
            self._held[oid] = HeldTable(table, self._tables.identity(oid), load)
        return all(self._held[oid].is_held for oid in kept.template.reads)

    def _loaded(self, oid: int) -> list[LiveQuery]:
        """Make up for what came during a load; templates that are ready meanwhile tell their rows as in any tick."""
        held = self._held[oid]
        error = held.load.exception()
        if error is not None:
            self._lose_table(oid, str(error), FULL_RETRY_S if str(error) == IS_FULL else RETRY_S)
            return []
        failed: list[LiveQuery] = []
        for missed in held.backlog:
            if self._held.get(oid) is held:
                failed += self._ticked({oid: (held.table, missed)}, {})
        held.set_held()
        return failed

    def _changes(self) -> dict[int, tuple[Table, Changes]]:
        """What changed in the tables that are held; what comes during a load is kept for its end."""
        found: dict[int, tuple[Table, Changes]] = {}
        for oid, held in list(self._held.items()):
            changed = self._tables.changes(oid)
            if not (changed.keys or changed.rows or changed.emptied):
                continue
            if held.is_held:
                found[oid] = (held.table, changed)
                continue
            held.change_later(changed)
            if held.backlog_rows > MOST_MISSED_ROWS:
                self._lose_table(oid, f"more than {MOST_MISSED_ROWS} rows changed during its load", RETRY_S)
        return found

    def _ticked(self, changes: ChangedTables, tuples: ChangedTuples) -> list[LiveQuery]:
        by_number = {kept.number: kept for kept in self._kept.values()}
        self._note(
            kept.template.id
            for kept in by_number.values()
            if kept.stage is not Stage.REFUSED and (kept.number in tuples or changes.keys() & set(kept.template.reads))
        )
        try:
            answers = list(self._operators.tick(changes, tuples))
        except Refused as error:
            self._lose_all(str(error))
            return []
        self._note(())
        failed: list[LiveQuery] = []
        for answer in answers:
            if isinstance(answer, LostTable):
                self._lose_table(answer.oid, answer.reason, RETRY_S)
                continue
            kept = by_number.get(answer.number)
            if kept is not None and kept.stage is not Stage.REFUSED:
                failed += self._caught(kept, partial(self._moved, kept, answer))
        return failed

    def _caught(self, kept: Kept, take: Callable[[], list[LiveQuery]]) -> list[LiveQuery]:
        """An error is the template's alone: it is evaluated whole."""
        failed: list[LiveQuery] = []

        def fail(failure: Failure) -> None:
            self._refuse(kept, failure.message, RETRY_S)

        with self._failures.caught("operators", kept.template, fail):
            failed += take()
        return failed

    def _note(self, ticked: Iterable[bytes]) -> None:
        """Record what operators are at, to know it after a crash."""
        made = (Stage.PLANNING, Stage.PLANNED, Stage.BUILDING)
        noted = {kept.template.id for kept in self._kept.values() if kept.stage in made} | set(ticked)
        if noted != self._noted:
            self._under_way.begin(OPERATORS, noted)
            self._noted = noted

    def _moved(self, kept: Kept, moved: Moved) -> list[LiveQuery]:
        if moved.failure:
            self._refuse(kept, moved.failure, RETRY_S)
            return []
        if moved.is_first:
            kept.go_live()
            self._log.info("query_incremental", template=kept.template.id.hex())
        rows: dict[int, list[tuple[bytes | None, ResultRow, int]]] = {}
        for number, weight, key, values in moved.rows:
            rows.setdefault(number, []).append((key, kept.printing.row(values), weight))
        failed: list[LiveQuery] = []
        for number, live in kept.queries.items():
            found = rows.get(number if kept.is_shared else 0, [])
            is_new = number not in kept.orders
            if (found or is_new) and not self._told(kept, number, live, found, is_new=is_new):
                failed.append(live)
        return failed

    def _fresh(self, kept: Kept) -> list[LiveQuery]:
        """Tell queries whose tuple gave no row at all."""
        return [
            live
            for number, live in kept.queries.items()
            if number not in kept.orders and not self._told(kept, number, live, [], is_new=True)
        ]

    def _told(
        self,
        kept: Kept,
        number: int,
        live: LiveQuery,
        found: list[tuple[bytes | None, ResultRow, int]],
        *,
        is_new: bool,
    ) -> bool:
        order = kept.order(number)
        net: Counter[ResultRow] = Counter()
        for _, row, weight in found:
            net[row] += weight
        net = Counter({row: weight for row, weight in net.items() if weight})
        position = self._commit_log.position
        live.set_by_key(None)
        before = list(order.rows) if kept.plan.ordered and not net and not is_new else []
        if kept.plan.ordered:
            for key, row, weight in sorted(found, key=lambda one: one[2]):
                order.change(key or b"", row, weight)
        if is_new or live.result is None:
            rows = order.rows if kept.plan.ordered else list(net.elements())
            is_told = self._publisher.publish_rows(live, rows, position)
        elif kept.plan.ordered:
            is_told = self._publisher.publish(
                live, live.result.move(net, order.rows, position, is_reordered=not net and before != order.rows)
            )
        else:
            is_told = self._publisher.publish(live, live.result.change(net, position))
        if live.result is not None and live.result.rows.total() > self._max_rows:
            self._refuse(kept, f"more than {self._max_rows} rows", RETRY_S)
        return is_told

    def _drop_outdated(self, templates: Mapping[bytes, LiveTemplate]) -> None:
        for oid, held in list(self._held.items()):
            if not self._tables.is_ready(oid) or self._tables.identity(oid) != held.loads:
                self._lose_table(oid, "its rows are loaded again", 1.0)
        for kept in list(self._kept.values()):
            template = kept.template
            is_gone = templates.get(template.id) is not template or template.plan is not kept.plan
            if is_gone or template.is_in_doubt or (kept.stage is Stage.LIVE and kept.has_lost()):
                self._refuse(kept, "it is planned anew", RETRY_S)
                del self._kept[template.id]
        self._forget_unread()

    def _forget_unread(self) -> None:
        read = {oid for kept in self._kept.values() if kept.stage is not Stage.REFUSED for oid in kept.template.reads}
        for oid in self._held.keys() - read:
            self._forget(oid)

    def _forget(self, oid: int) -> None:
        """A load that is under way is forgotten behind it, and before another one of the table."""
        held = self._held.pop(oid)
        if held.load.cancel() or held.load.done():
            self._operators.forget(oid)
        else:
            self._pool.submit(self._operators.forget, oid)

    def _lose_table(self, oid: int, reason: str, retry_s: float) -> None:
        if oid in self._held:
            self._forget(oid)
        for kept in list(self._kept.values()):
            if oid in kept.template.reads and kept.stage is not Stage.REFUSED:
                self._refuse(kept, reason, retry_s)

    def _lose_all(self, reason: str) -> None:
        """Nothing is known of what the engine holds: everything is evaluated whole, and begun anew later."""
        self._log.warning("operators_lost", reason=reason)
        for kept in list(self._kept.values()):
            if kept.stage is not Stage.REFUSED:
                self._refuse(kept, reason, RETRY_S)
        self._forget_unread()

    def _refuse(self, kept: Kept, reason: str, retry_s: float) -> None:
        """Evaluate it whole, from the present state on."""
        self._log.info("query_not_incremental", template=kept.template.id.hex(), reason=reason)
        if kept.stage is Stage.LIVE:
            kept.template.evaluate_again()
        if kept.stage is not Stage.REFUSED:
            self._operators.drop(kept.number)
            if kept.work is not None and not kept.work.cancel():
                # A plan that is being made is put there at its end.
                self._pool.submit(self._operators.drop, kept.number)
        kept.refuse(reason, self._clock() + retry_s)

    def _weigh(self) -> None:
        """Keep what operators hold within its limit: the youngest template gives way."""
        if self._clock() - self._weighed_at_s < WEIGHED_EVERY_S:
            return
        self._weighed_at_s = self._clock()
        live = [kept for kept in self._kept.values() if kept.stage in (Stage.LIVE, Stage.BUILDING)]
        try:
            held_bytes = self._operators.bytes() if self._kept or self._held else 0
        except Refused as error:
            self._lose_all(str(error))
            return
        self._metrics.incremental.set(sum(kept.stage is Stage.LIVE for kept in live))
        self._metrics.incremental_bytes.set(held_bytes)
        if held_bytes > self._most_bytes and live:
            self._refuse(max(live, key=lambda kept: kept.number), IS_FULL, FULL_RETRY_S)
            self._forget_unread()
