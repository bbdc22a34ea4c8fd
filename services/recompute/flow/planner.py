"""Plans beside the loop: PostgreSQL describes a template, planning chooses, and a barrier says from where it counts."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import PostgresRefused, PostgresUnreachable
from services.recompute.core.catalog import Described, PgType, Table, Union
from services.recompute.core.live import Failure, LiveQuery, LiveTemplate
from services.recompute.core.plan import OutputColumn, Plan, Read, Strategy
from services.recompute.core.planning import plan
from services.recompute.core.refusal import Refused
from services.recompute.core.rendering import is_utc, zone_agrees
from services.recompute.inbound.catalog import CatalogReader

PARALLEL_PLANS = 2
OUTAGE_WAIT_S = 1.0


class Planned(Struct, frozen=True):
    """The plan as of a barrier: it counts once the log has passed that."""

    template_id: bytes
    barrier_id: str
    outcome: Plan | Failure
    tables: dict[int, Table]


class Normalised(Struct, frozen=True):
    """Parameters as PostgreSQL prints them under the settings of the log, or why it does not take them."""

    template_id: bytes
    values: dict[bytes, ResultRow | Failure]


class Planner:
    """Asks in threads; a template is asked for once at a time, and again if it was asked for meanwhile."""

    def __init__(
        self,
        reader: Callable[[], CatalogReader],
        emit_barrier: Callable[[], str],
        events: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader, self._emit_barrier, self._events, self._clock = reader, emit_barrier, events, clock
        self._pool = ThreadPoolExecutor(PARALLEL_PLANS, thread_name_prefix="plan")
        self._running: dict[bytes, tuple[LiveTemplate, Future[Planned]]] = {}
        self._again: dict[bytes, LiveTemplate] = {}
        self._waiting: dict[bytes, Planned] = {}
        self._later: dict[bytes, tuple[float, LiveTemplate]] = {}
        self._normalising: list[Future[Normalised]] = []
        self._looking: Future[str] | None = None
        self._rights = ""
        self._zones: dict[str, bool] = {}

    def ask(self, template: LiveTemplate) -> None:
        self._waiting.pop(template.id, None)
        if template.id in self._running:
            self._again[template.id] = template
        else:
            self._running[template.id] = (template, self._pool.submit(self._plan, template.id, template.query))

    def normalise(self, template: LiveTemplate, queries: Sequence[LiveQuery]) -> None:
        """Have PostgreSQL read the parameters of queries whose template is planned."""
        assert template.plan is not None
        given = {live.id: live.parameters for live in queries}
        types, query = template.plan.parameter_types, template.query
        self._normalising.append(self._pool.submit(self._normalise, template.id, query, types, given))

    def normalised(self) -> Iterator[Normalised]:
        """What PostgreSQL made of them; an outage leaves them to be asked again."""
        for future in [one for one in self._normalising if one.done()]:
            self._normalising.remove(future)
            yield future.result()

    def look_at_rights(self) -> None:
        """Find out beside the loop whether grants, policies or roles are other ones."""
        if self._looking is None:
            self._looking = self._pool.submit(self._look)

    def rights_changed(self) -> bool:
        """Whether the last look found other rights than the one before it; said once."""
        if self._looking is None or not self._looking.done():
            return False
        future, self._looking = self._looking, None
        if isinstance(future.exception(), PostgresUnreachable):
            return False
        before, self._rights = self._rights, future.result()
        return before not in ("", self._rights)

    def forget(self, template_id: bytes) -> None:
        for asked in (self._waiting, self._again, self._later):
            asked.pop(template_id, None)

    def done(self, passed_barriers: Mapping[str, int]) -> Iterator[Planned]:
        """The plans that count now."""
        now_s = self._clock()
        for due in [template for at_s, template in self._later.values() if now_s >= at_s]:
            del self._later[due.id]
            self.ask(due)
        for template_id, (template, future) in list(self._running.items()):
            if future.done():
                del self._running[template_id]
                self._finished(template, future)
        for template_id, planned in list(self._waiting.items()):
            if planned.barrier_id in passed_barriers:
                del self._waiting[template_id]
                yield planned

    def _finished(self, template: LiveTemplate, future: Future[Planned]) -> None:
        again = self._again.pop(template.id, None)
        if again is not None:
            self.ask(again)
        elif isinstance(future.exception(), PostgresUnreachable):
            self._later[template.id] = (self._clock() + OUTAGE_WAIT_S, template)
        else:
            self._waiting[template.id] = future.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _plan(self, template_id: bytes, query: Query) -> Planned:
        tables: dict[int, Table] = {}
        outcome: Plan | Failure
        try:
            with self._reader() as reader:
                described = reader.describe(query)
                tables = _tables(described)
                outcome = self._chosen(template_id, query, described)
                zone = query.text_settings.time_zone
                if (
                    outcome.strategy is not Strategy.SOURCE
                    and _prints_moments(outcome)
                    and not self._knows(reader, zone)
                ):
                    outcome = by_postgres(described, f"the time zone {zone}, of which PostgreSQL has another table")
        except Refused as refused:
            outcome = Failure(refused.sqlstate, refused.message)
        return Planned(template_id, self._emit_barrier(), outcome, tables)

    def _knows(self, reader: CatalogReader, zone: str) -> bool:
        """Whether our table of a time zone is PostgreSQL's: those of different years differ."""
        if zone not in self._zones:
            self._zones[zone] = is_utc(zone) or zone_agrees(zone, reader.zone_offsets(zone))
        return self._zones[zone]

    def _look(self) -> str:
        with self._reader() as reader:
            return reader.rights()

    def _normalise(
        self, template_id: bytes, query: Query, types: Sequence[PgType], given: Mapping[bytes, ResultRow]
    ) -> Normalised:
        try:
            with self._reader() as reader:
                read = reader.normalised(types, list(given.values()), query.text_settings)
        except PostgresUnreachable:
            return Normalised(template_id, {})
        values: dict[bytes, ResultRow | Failure] = {}
        for query_id, one in zip(given, read, strict=True):
            values[query_id] = Failure(one.sqlstate, one.message) if isinstance(one, Refused) else one
        return Normalised(template_id, values)

    def _chosen(self, template_id: bytes, query: Query, described: Described) -> Plan:
        try:
            return plan(query.template_sql, query.filter, described, query.text_settings)
        except (PostgresUnreachable, PostgresRefused):
            raise
        except Exception as error:
            # A tree that our dialect stumbles over must not end the worker: PostgreSQL can always answer.
            self._events.exception("planning_failed", template=template_id.hex(), error=repr(error))
            return by_postgres(described, f"planning failed: {error!r}")


def by_postgres(described: Described, reason: str) -> Plan:
    """The plan that is always right: PostgreSQL runs the query."""
    return Plan(
        strategy=Strategy.SOURCE,
        why_not={strategy.value: reason for strategy in (Strategy.ROW_LOCAL, Strategy.FULL)},
        columns=tuple(OutputColumn(column.name, column.type) for column in described.columns),
        reads=tuple(Read(oid, frozenset(range(len(table.columns)))) for oid, table in _tables(described).items()),
        depends_on=described.depends_on,
        parameter_types=described.parameter_types,
        on_timer=True,
    )


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
