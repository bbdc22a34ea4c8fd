"""The worker: queries come and go, commits come in, deltas go out, turn by turn."""

import time
from collections import Counter
from collections.abc import Callable

import orjson
from structlog.typing import FilteringBoundLogger

from proto.streams.changes import ChangeUnwritable, HistoryBegan, RowChanged, SchemaChanged, Truncated
from proto.tidewire.v1.deltas_pb2 import Delta
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.query import bind, parse
from services.recompute.core.replica import Diverged, Replica, Signed
from services.recompute.core.result import Result, State, error_delta
from services.recompute.core.tracking import Failure, LiveQuery, LiveTable, Request
from services.recompute.errors import HistoryEnded, NotSupported, RelationMissing
from services.recompute.inbound.base import Base, Source
from services.recompute.inbound.changes import Commit, CommitLog, TableEvent
from services.recompute.inbound.queries import Ended, Gained, Lost, Queries, Wanted
from services.recompute.loading import Loading
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.spark import Batch, Spark

LOG_WAIT_S = 0.01


class Worker:
    """Owns the queries of its partitions; `turn` is called until the process ends."""

    def __init__(
        self,
        *,
        queries: Queries,
        log: CommitLog,
        source: Source,
        deltas: Deltas,
        spark: Spark,
        metrics: Metrics,
        events: FilteringBoundLogger,
        barrier_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted, self._log, self._source, self._deltas, self._spark = queries, log, source, deltas, spark
        self._metrics, self._events, self._clock = metrics, events, clock
        self._barrier_wait_s = barrier_wait_s
        self._loading = Loading(source)
        self._queries: dict[bytes, LiveQuery] = {}
        self._tables: dict[int, LiveTable] = {}
        self._told: dict[bytes, State] = {}
        self._answered: set[bytes] = set()

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
                case Ended(query_id=query_id):
                    self._end(query_id)
        self._follow()
        for live, loaded in self._loading.finished(self._log.barriers):
            self._loaded(live, loaded)
        self._answer()
        self._deltas.poll()

    def close(self) -> None:
        self._loading.close()

    def _take_over(self, partitions: tuple[int, ...]) -> None:
        for partition, emitted in self._deltas.take_over(partitions, self._log.history):
            self._told.update(emitted.states)
            self._answered |= emitted.answered
            self._events.info("partition_taken_over", partition=partition, queries_known=len(emitted.states))

    def _give_up(self, partitions: set[int]) -> None:
        for live in [live for live in self._queries.values() if live.partition in partitions]:
            self._end(live.id)
        self._events.info("partitions_given_up", partitions=sorted(partitions))

    def _want(self, partition: int, query: Query) -> None:
        live = self._queries.get(query.query_id)
        if live is None:
            live = self._queries[query.query_id] = LiveQuery(partition, query, self._told.pop(query.query_id, None))
            self._compile(live)
            self._metrics.queries.set(len(self._queries))
        now_s = self._clock()
        live.requests = {
            wanted.request_id: live.requests.get(wanted.request_id) or Request(wanted, now_s)
            for wanted in query.snapshots
            if wanted.request_id not in self._answered
        }

    def _compile(self, live: LiveQuery) -> None:
        query = live.query
        try:
            live.parsed = parse(query.sql)
            table = self._source.resolve(live.parsed.schema, live.parsed.table, query.search_path)
            self._bind(live, LiveTable(table))
        except (NotSupported, RelationMissing) as error:
            live.failure = Failure(error.sqlstate, str(error))
            self._events.info("query_refused", query=live.id.hex(), reason=str(error))
            return
        held = self._tables.get(table.oid)
        if held is None:
            held = self._tables[table.oid] = LiveTable(table)
            self._loading.begin(held, self._log.commits)
        held.queries[live.id] = live
        if held.replica is not None:
            self._bind(live, held)
            self._evaluate(held, [live])

    def _bind(self, live: LiveQuery, held: LiveTable) -> None:
        assert live.parsed is not None
        live.plan = bind(
            live.parsed,
            held.table,
            parameters=live.parameters(),
            filter_sql=live.query.filter,
            text_settings=live.query.text_settings,
        )

    def _end(self, query_id: bytes) -> None:
        live = self._queries.pop(query_id, None)
        if live is None:
            return
        if live.told is not None:
            # Its readers have not been told where it went on from there; it may only be an old record that is replayed.
            self._told[query_id] = live.told
        self._metrics.queries.set(len(self._queries))
        for oid, held in list(self._tables.items()):
            held.queries.pop(query_id, None)
            if not held.queries:
                del self._tables[oid]
                self._loading.forget(oid)

    def _follow(self) -> None:
        """Take whole commits in, and tell what they changed in the results."""
        began_s = self._clock()
        nets: dict[int, Signed] = {}
        for commit in self._log.read(LOG_WAIT_S):
            if isinstance(commit, HistoryBegan):
                if self._tables:
                    raise HistoryEnded(commit.history, commit.because)
                continue
            self._take_commit(commit, nets)
        changed = [self._tables[oid] for oid, net in nets.items() if net and oid in self._tables]
        if changed:
            self._tell(changed, nets)
            self._metrics.ticks.inc()
            self._metrics.tick_seconds.observe(self._clock() - began_s)

    def _take_commit(self, commit: Commit, nets: dict[int, Signed]) -> None:
        for event in commit.events:
            for held in self._concerned(event):
                oid = held.table.oid
                try:
                    if isinstance(event, SchemaChanged | ChangeUnwritable):
                        raise Diverged("its schema changed" if isinstance(event, SchemaChanged) else event.reason)
                    if held.replica is None:
                        held.backlog.append(event)
                    else:
                        held.replica.change(event, nets.setdefault(oid, {}))
                except Diverged as reason:
                    nets.pop(oid, None)
                    self._reload(held, str(reason))

    def _concerned(self, event: TableEvent) -> list[LiveTable]:
        if isinstance(event, RowChanged | Truncated | ChangeUnwritable):
            held = self._tables.get(event.relation.oid)
            return [] if held is None else [held]
        objects = orjson.loads(event.description).get("objects", [])
        oids = {described.get("oid") for described in objects}
        names = {(described.get("schema"), described.get("name")) for described in objects}
        return [
            held
            for held in self._tables.values()
            if held.table.oid in oids or (held.table.schema, held.table.name) in names
        ]

    def _tell(self, changed: list[LiveTable], nets: dict[int, Signed]) -> None:
        """One Spark job over all changed rows and all queries that read their tables."""
        batches, asked = [], []
        for held in changed:
            lives = [live for live in held.queries.values() if live.result is not None and live.plan is not None]
            rows = list(nets[held.table.oid])
            batches.append(Batch(held.table, rows, [live.plan.predicate for live in lives if live.plan]))
            asked.append((held, lives, rows))
        for (held, lives, rows), found in zip(asked, self._spark.matches(batches), strict=True):
            net = nets[held.table.oid]
            for live, numbers in zip(lives, found, strict=True):
                assert live.result is not None and live.plan is not None
                moved: Counter[tuple[bytes | None, ...]] = Counter()
                for number in numbers:
                    moved[live.plan.project(rows[number])] += net[rows[number]]
                really = {row: weight for row, weight in moved.items() if weight}
                self._count(self._deltas.append(live.result.change(really, self._log.position)))

    def _reload(self, held: LiveTable, reason: str) -> None:
        self._events.warning("table_reloaded", table=held.table.name, reason=reason)
        for live in held.queries.values():
            if live.result is not None:
                live.told, live.result = live.result.state, None
        self._loading.begin(held, self._log.commits)

    def _loaded(self, held: LiveTable, loaded: Base | RelationMissing) -> None:
        if isinstance(loaded, RelationMissing):
            dropped = f"Subscription invalidated: table '{held.table.name}' was dropped"
            for live in list(held.queries.values()):
                self._fail(live, Failure(loaded.sqlstate, dropped))
            del self._tables[held.table.oid]
            return
        if not held.is_fit(loaded.snapshot):
            self._loading.begin(held, self._log.commits)
            return
        backlog, held.table = held.backlog, loaded.table
        held.replica = Replica(loaded.table, loaded.rows)
        try:
            for event in backlog:
                if not loaded.snapshot.sees(event.xid):
                    held.replica.change(event, {})
        except Diverged as reason:
            self._reload(held, str(reason))
            return
        held.backlog = []
        self._events.info("table_loaded", table=held.table.name, rows=held.replica.rows.total())
        self._metrics.rows.set(sum(t.replica.rows.total() for t in self._tables.values() if t.replica))
        for live in list(held.queries.values()):
            try:
                self._bind(live, held)
            except NotSupported as error:
                self._fail(live, Failure(error.sqlstate, str(error)))
                del held.queries[live.id]
        self._evaluate(held, list(held.queries.values()))

    def _evaluate(self, held: LiveTable, lives: list[LiveQuery]) -> None:
        """The whole results of queries from the replica, and what their readers have to learn."""
        assert held.replica is not None
        rows = list(held.replica.rows)
        plans = [live.plan for live in lives if live.plan is not None]
        (found,) = self._spark.matches([Batch(held.table, rows, [plan.predicate for plan in plans])])
        for live, plan, numbers in zip(lives, plans, found, strict=True):
            result: Counter[tuple[bytes | None, ...]] = Counter()
            for number in numbers:
                result[plan.project(rows[number])] += held.replica.rows[rows[number]]
            live.result = Result(live.id, self._log.history, plan.columns, plan.key_positions)
            self._count(self._deltas.append(live.result.begin(result, self._log.position, live.told)))
            live.told, live.failure = None, None

    def _fail(self, live: LiveQuery, failure: Failure) -> None:
        live.failure, live.result = failure, None
        if live.told is not None:
            self._count(self._deltas.append([self._error(live, failure)]))
            live.told = None

    def _answer(self) -> None:
        """Whole results for those who asked and whose barrier the log has passed."""
        for live in self._queries.values():
            for request_id, request in list(live.requests.items()):
                if live.failure is not None:
                    self._count(self._deltas.answer(request.wanted, [self._error(live, live.failure)]))
                elif live.result is not None and self._is_due(request):
                    # Readers who stand at an earlier commit must be able to go on together with this one.
                    self._count(self._deltas.append(live.result.progress(self._log.position)))
                    self._count(self._deltas.answer(request.wanted, live.result.whole()))
                else:
                    continue
                del live.requests[request_id]
                self._answered.add(request_id)

    def _is_due(self, request: Request) -> bool:
        barriers = self._log.barriers
        if not request.wanted.barrier_id or request.wanted.barrier_id in barriers or request.own_barrier in barriers:
            return True
        if request.own_barrier is None and self._clock() - request.since_s > self._barrier_wait_s:
            # It may have passed before we began to read; one that we emit now is behind it in any case.
            request.own_barrier = self._source.emit_barrier()
        return False

    def _error(self, live: LiveQuery, failure: Failure) -> Delta:
        return error_delta(live.id, self._log.history, self._log.position, failure.sqlstate, failure.message)

    def _count(self, records: int) -> None:
        self._metrics.deltas.inc(records)
