"""Plans beside the loop: PostgreSQL describes a template, planning chooses, and a barrier says from where it counts."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import PostgresRefused, PostgresUnreachable
from services.recompute.core.catalog import Described, Table, Union
from services.recompute.core.live import Failure, LiveTemplate
from services.recompute.core.plan import OutputColumn, Plan, Read, Strategy
from services.recompute.core.planning import plan
from services.recompute.core.refusal import Refused
from services.recompute.inbound.catalog import CatalogReader

PARALLEL_PLANS = 2


class Planned(Struct, frozen=True):
    """The plan as of a barrier: it counts once the log has passed that."""

    template_id: bytes
    barrier_id: str
    outcome: Plan | Failure
    tables: dict[int, Table]


class Planner:
    """Asks in threads; a template is asked for once at a time, and again if it was asked for meanwhile."""

    def __init__(
        self,
        reader: Callable[[], CatalogReader],
        emit_barrier: Callable[[], str],
        events: FilteringBoundLogger,
    ) -> None:
        self._reader, self._emit_barrier, self._events = reader, emit_barrier, events
        self._pool = ThreadPoolExecutor(PARALLEL_PLANS, thread_name_prefix="plan")
        self._running: dict[bytes, Future[Planned]] = {}
        self._again: dict[bytes, LiveTemplate] = {}
        self._waiting: dict[bytes, Planned] = {}

    def ask(self, template: LiveTemplate) -> None:
        self._waiting.pop(template.id, None)
        if template.id in self._running:
            self._again[template.id] = template
        else:
            self._running[template.id] = self._pool.submit(self._plan, template.id, template.query)

    def forget(self, template_id: bytes) -> None:
        self._waiting.pop(template_id, None)
        self._again.pop(template_id, None)

    def done(self, passed_barriers: dict[str, int]) -> Iterator[Planned]:
        """The plans that count now."""
        for template_id, future in list(self._running.items()):
            if not future.done():
                continue
            del self._running[template_id]
            again = self._again.pop(template_id, None)
            if again is not None:
                self.ask(again)
            else:
                self._waiting[template_id] = future.result()
        for template_id, planned in list(self._waiting.items()):
            if planned.barrier_id in passed_barriers:
                del self._waiting[template_id]
                yield planned

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
        except Refused as refused:
            outcome = Failure(refused.sqlstate, refused.message)
        return Planned(template_id, self._emit_barrier(), outcome, tables)

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


def _tables(described: Described) -> dict[int, Table]:
    """The tables whose rows are in the log, as all roles see them."""
    found: dict[int, Table] = {}
    for relation in described.relations.values():
        members = relation.members if isinstance(relation, Union) else (relation,)
        for member in members:
            if isinstance(member, Table):
                found[member.oid] = msgspec.structs.replace(member, row_filter="")
    return found
