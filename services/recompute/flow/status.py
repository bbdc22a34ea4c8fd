"""What the worker says of its queries and tables on `status`: gathered by its own loop, written by another thread."""

import time
from collections.abc import Callable, Iterable
from itertools import islice

from proto.tidewire.v1.status_pb2 import LiveQueryStatus, ReplicaStatus, Status
from services.recompute.core.catalog import Table
from services.recompute.core.live_query import LiveQuery
from services.recompute.core.plan import Plan
from services.recompute.core.result import Position
from services.recompute.flow.tables.table_replica import TableReplica
from services.recompute.flow.worker import Worker

EVERY_S = 2.0
# One record of Kafka holds them all: the longest lived are shown.
MOST_QUERIES = 500
MOST_TABLES = 2_000
LONGEST_SQL = 600
LONGEST_REASON = 200


class StatusReport:
    """`refresh` is called in the loop, `add` in the thread that writes: they meet in one assignment."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next_s, self._gathered = clock, 0.0, Status()
        # A result's rows are counted again only after it has moved: large ones take milliseconds.
        self._counted: dict[bytes, tuple[Position, int]] = {}

    def refresh(self, worker: Worker) -> None:
        """Look at what is kept, if it is time to."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + EVERY_S
        live, replicas = worker.live_queries.queries, worker.tables.replicas
        names = {one.table.oid: f"{one.table.schema}.{one.table.name}" for one in replicas}
        shown = list(islice(live.values(), MOST_QUERIES))
        self._counted = {one.id: counted for one in shown if (counted := self._rows(one)) is not None}
        self._gathered = Status(
            queries=[query_status(one, names, self._counted.get(one.id)) for one in shown],
            queries_total=len(live),
            tables=_tables(islice(replicas, MOST_TABLES)),
        )

    def add(self, status: Status) -> None:
        status.MergeFrom(self._gathered)

    def _rows(self, live: LiveQuery) -> tuple[Position, int] | None:
        if live.result is None:
            return None
        known = self._counted.get(live.id)
        if known is not None and known[0] == live.result.position:
            return known
        return live.result.position, live.result.rows.total()


def query_status(live: LiveQuery, names: dict[int, str], counted: tuple[Position, int] | None) -> LiveQueryStatus:
    """A query as it is kept now."""
    template, plan = live.template, live.template.plan
    failure = live.failure or template.refusal
    return LiveQueryStatus(
        query_id=live.id,
        template_id=template.id,
        sql=(live.query.sql or live.query.template_sql)[:LONGEST_SQL],
        role=live.query.role,
        strategy="" if plan is None else plan.strategy.value,
        spark_sql="" if plan is None else _spark_sql(plan)[:LONGEST_SQL],
        why_not={} if plan is None else {name: why[:LONGEST_REASON] for name, why in plan.why_not.items()},
        tables=sorted(names.get(oid) or _name(template.tables.get(oid), oid) for oid in template.reads),
        rows=None if counted is None else counted[1],
        error="" if failure is None else f"{failure.sqlstate}: {failure.message}"[:LONGEST_REASON],
        by="postgres" if live.is_by_postgres else "spark",
        latency_ms=None if live.latency_us is None else live.latency_us / 1000,
    )


def _name(table: Table | None, oid: int) -> str:
    return str(oid) if table is None else f"{table.schema}.{table.name}"


def _spark_sql(plan: Plan) -> str:
    if plan.row_local is not None:
        where = f" WHERE {plan.row_local.predicate}" if plan.row_local.predicate else ""
        return f"SELECT {', '.join(plan.row_local.outputs)} FROM ⟦t:{plan.row_local.table}⟧{where}"
    return "" if plan.full is None else plan.full.sql


def _tables(replicas: Iterable[TableReplica]) -> list[ReplicaStatus]:
    return [
        ReplicaStatus(
            oid=one.table.oid,
            name=f"{one.table.schema}.{one.table.name}",
            phase=one.phase.value,
            rows=one.base_rows,
            overlay_rows=one.overlay_rows,
        )
        for one in replicas
    ]
