"""Makes plans in threads: PostgreSQL describes a template, planning chooses, and a barrier marks where it is valid."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial

import msgspec
from msgspec import Struct

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import PostgresRefused, PostgresUnreachable
from services.recompute.core.catalog import Described, PgType, Table, Union
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import WHILE_PLANNING, plan, source_plan
from services.recompute.core.rendering import is_utc, zone_agrees
from services.recompute.errors import ThreadLost
from services.recompute.flow.failures import INTERNAL_ERROR, Failures
from services.recompute.flow.fair_pool import FairPool
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.recompute.outbound.postgres.subscriber import subscriber_of
from services.sqlguard.refusal import Refused

PARALLEL_PLANS = 3
# At most so many threads plan for one login, so that others get a thread.
LOGIN_PLANS = 2
OUTAGE_WAIT_S = 1.0
# The least time between two plans of a template: any login's DDL may cause one.
REPLAN_S = 0.5
# Spark reads texts as they are meant under these settings.
SPARK_READS_BY = {"array_nulls": "on", "transform_null_equals": "off"}
# Any client may invent names of time zones: the cache is bounded.
MOST_ZONES = 1000


class Planned(Struct, frozen=True):
    """A plan, valid once the log has passed its barrier.

    It reflects everything committed before it began; DDL since then may or may not be reflected.
    """

    template_id: bytes
    began_s: float
    barrier_id: str
    outcome: Plan | Failure
    tables: dict[int, Table]


class Normalised(Struct, frozen=True):
    """Parameters as PostgreSQL prints them under the settings of the log, or why it does not take them."""

    template_id: bytes
    values: dict[bytes, ResultRow | Failure]


class Planner:
    """Plans for the logins in turn; one plan of a template at a time, and another one if it was asked for meanwhile.

    A finished plan is used even if another was asked for since: otherwise frequent DDL would keep every plan from use.
    Rights are checked in a thread of their own, which neither a backlog of plans nor a locked table delays.
    """

    def __init__(
        self,
        reader: Callable[[], AbstractContextManager[CatalogReader]],
        emit_barrier: Callable[[], str],
        failures: Failures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader, self._emit_barrier, self._failures, self._clock = reader, emit_barrier, failures, clock
        self._pool = FairPool(PARALLEL_PLANS, login_threads=LOGIN_PLANS, name="plan")
        self._rights_pool = ThreadPoolExecutor(1, thread_name_prefix="rights")
        self._running: dict[bytes, tuple[LiveTemplate, Future[Planned]]] = {}
        self._asked_s: dict[bytes, float] = {}
        # The plan that is used next, and the newest one.
        self._waiting: dict[bytes, list[Planned]] = {}
        self._later: dict[bytes, tuple[float, LiveTemplate, bool]] = {}
        self._normalising: list[tuple[LiveTemplate, tuple[bytes, ...], Future[Normalised]]] = []
        self._looking: Future[str] | None = None
        self._rights = ""
        self._zones: dict[str, bool] = {}

    def ask(self, template: LiveTemplate, *, first: bool = False) -> None:
        """Have the template planned. `first`: before others of its login, since its rights may have changed."""
        under_way = self._running.get(template.id)
        if under_way is not None and under_way[0] is template and _is_to_begin(under_way[1]):
            return
        now_s = self._clock()
        due_s = self._asked_s.get(template.id, now_s - REPLAN_S) + REPLAN_S
        if under_way is not None or now_s < due_s:
            is_first = first or (template.id in self._later and self._later[template.id][2])
            self._later[template.id] = (due_s, template, is_first)
        else:
            self._submit(template, now_s, first=first)

    def normalise(self, template: LiveTemplate, queries: Sequence[LiveQuery]) -> None:
        """Have PostgreSQL read the parameters of queries whose template is planned."""
        assert template.plan is not None
        given = {live.id: live.parameters for live in queries}
        types, query = template.plan.parameter_types, template.query
        future = self._pool.submit(
            subscriber_of(query).login, partial(self._normalise, template.id, query, types, given)
        )
        self._normalising.append((template, tuple(given), future))

    def normalised(self) -> Iterator[Normalised]:
        """The parameters that PostgreSQL has read; after an outage they are asked for again."""
        asked, self._normalising = self._normalising, []
        for template, query_ids, future in asked:
            # Asked once: one that is done between two looks would be in neither list.
            if not future.done():
                self._normalising.append((template, query_ids, future))
                continue
            error = future.exception()
            if error is None:
                yield future.result()
                continue
            self._failures.note("normalise", template, repr(error), exc_info=error)
            failure = Failure(INTERNAL_ERROR, f"its parameters could not be read ({type(error).__name__})")
            yield Normalised(template.id, dict.fromkeys(query_ids, failure))

    def look_at_rights(self) -> None:
        """Start a check whether grants, policies or roles have changed."""
        if self._looking is None:
            self._looking = self._rights_pool.submit(self._look)

    def rights_changed(self) -> bool:
        """Whether the last check found a change; true once for each change."""
        if self._looking is None or not self._looking.done():
            return False
        future, self._looking = self._looking, None
        error = future.exception()
        if error is not None:
            # An unexpected error: have every template planned again.
            return not isinstance(error, PostgresUnreachable | PostgresRefused)
        before, self._rights = self._rights, future.result()
        return before not in ("", self._rights)

    def forget(self, template_id: bytes) -> None:
        for asked in (self._waiting, self._later, self._asked_s):
            asked.pop(template_id, None)

    def done(self, passed_barriers: Mapping[str, int]) -> Iterator[Planned]:
        """The plans whose barrier the log has passed."""
        if not self._pool.is_whole:
            raise ThreadLost("plan")
        for template_id, (template, future) in list(self._running.items()):
            if future.done():
                del self._running[template_id]
                self._finished(template, future)
        now_s = self._clock()
        for at_s, template, first in list(self._later.values()):
            if now_s >= at_s and template.id not in self._running:
                self._submit(template, now_s, first=first)
        for waiting in list(self._waiting.values()):
            passed = [place for place, planned in enumerate(waiting) if planned.barrier_id in passed_barriers]
            if passed:
                del waiting[: passed[-1]]
                yield waiting.pop(0)

    def _submit(self, template: LiveTemplate, now_s: float, *, first: bool) -> None:
        self._asked_s[template.id] = now_s
        self._later.pop(template.id, None)
        future = self._pool.submit(subscriber_of(template.query).login, partial(self._plan, template), first=first)
        self._running[template.id] = (template, future)

    def _finished(self, template: LiveTemplate, future: Future[Planned]) -> None:
        """Keep the plan until its barrier has passed; after an error plan again later."""
        if template.id not in self._asked_s:
            return  # nobody wants it any more
        error = future.exception()
        if error is None:
            self._waiting[template.id] = [*self._waiting.get(template.id, [])[:1], future.result()]
            return
        if not isinstance(error, PostgresUnreachable):
            self._failures.note("plan", template, repr(error)[:500], exc_info=error)
        _, wanted, first = self._later.get(template.id, (0.0, template, False))
        self._later[template.id] = (self._clock() + OUTAGE_WAIT_S, wanted, first)

    def close(self) -> None:
        self._pool.close()
        self._rights_pool.shutdown(wait=False, cancel_futures=True)

    def _plan(self, template: LiveTemplate) -> Planned:
        template_id, query, began_s = template.id, template.query, self._clock()
        tables: dict[int, Table] = {}
        outcome: Plan | Failure
        try:
            with self._reader() as reader:
                described = reader.describe(query)
                tables = _tables(described)
                outcome = self._chosen(template, query, described)
                zone = query.text_settings.time_zone
                if (
                    outcome.strategy is not Strategy.SOURCE
                    and _prints_moments(outcome)
                    and not self._knows(reader, zone)
                ):
                    reason = f"the time zone {zone}, of which PostgreSQL has another table"
                    outcome = by_postgres(query, described, reason)
        except Refused as refused:
            outcome = Failure(refused.sqlstate, refused.message)
        except (PostgresUnreachable, PostgresRefused):
            raise
        except Exception as error:  # any other error while describing fails this template only
            self._failures.note("describe", template, repr(error)[:500], exc_info=error)
            outcome = Failure(INTERNAL_ERROR, f"the statement could not be read ({type(error).__name__})")
        return Planned(template_id, began_s, self._emit_barrier(), outcome, tables)

    def _knows(self, reader: CatalogReader, zone: str) -> bool:
        """Whether our time zone table agrees with PostgreSQL's: versions of different years differ."""
        known = self._zones.get(zone)
        if known is None:
            known = is_utc(zone) or zone_agrees(zone, reader.zone_offsets(zone))
            if len(self._zones) >= MOST_ZONES:
                self._zones.clear()
            self._zones[zone] = known
        return known

    def _look(self) -> str:
        with self._reader() as reader:
            return reader.rights()

    def _normalise(
        self, template_id: bytes, query: Query, types: Sequence[PgType], given: Mapping[bytes, ResultRow]
    ) -> Normalised:
        try:
            with self._reader() as reader:
                read = reader.normalised(query, types, list(given.values()))
        except (PostgresUnreachable, PostgresRefused):
            return Normalised(template_id, {})
        values: dict[bytes, ResultRow | Failure] = {}
        for query_id, one in zip(given, read, strict=True):
            values[query_id] = Failure(one.sqlstate, one.message) if isinstance(one, Refused) else one
        return Normalised(template_id, values)

    def _chosen(self, template: LiveTemplate, query: Query, described: Described) -> Plan:
        for name, usual in SPARK_READS_BY.items():
            if query.settings_read.get(name, usual) != usual:
                return by_postgres(query, described, f"the setting {name} = {query.settings_read[name]}")
        try:
            chosen = plan(query.template_sql, query.filter, described, query.text_settings)
        except Exception as error:
            # A programming error must not end the worker: PostgreSQL can always answer.
            self._failures.programming_error(template, repr(error)[:500], error)
            return by_postgres(query, described, f"planning failed: {type(error).__name__}")
        for reason in {reason for reason in chosen.why_not.values() if reason.endswith(WHILE_PLANNING)}:
            self._failures.programming_error(template, reason)
        return chosen


def _is_to_begin(future: Future[Planned]) -> bool:
    """Whether the plan has not begun yet, and so will reflect all commits so far."""
    return not (future.running() or future.done())


def by_postgres(query: Query, described: Described, reason: str) -> Plan:
    """The plan that is always right: PostgreSQL runs the query, on a timer too."""
    why_not = {strategy.value: reason for strategy in (Strategy.ROW_LOCAL, Strategy.FULL)}
    return msgspec.structs.replace(source_plan(query.template_sql, None, described, why_not), on_timer=True)


def _prints_moments(plan: Plan) -> bool:
    return any("timestamptz" in column.type.name or "tstz" in column.type.name for column in plan.columns)


def _tables(described: Described) -> dict[int, Table]:
    """The tables whose rows are in the log, as all roles see them."""
    found: dict[int, Table] = {}
    for relation in described.relations.values():
        members = relation.members if isinstance(relation, Union) else (relation,)
        for member in members:
            if isinstance(member, Table):
                found[member.oid] = msgspec.structs.replace(member, row_filter="")
    return found
