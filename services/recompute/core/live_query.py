"""Live queries and their templates: plans, results, who waits for them, and what their readers know.

Others read the attributes of these classes and change them by calling methods only
(tests/architecture/test_state_changes.py).
"""

from collections.abc import Iterable

from msgspec import Struct

from proto.rows import ResultRow
from proto.streams.deltas import Standing
from proto.tidewire.v1.deltas_pb2 import Delta, ResultColumn
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from services.recompute.core.catalog import Table
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.result import Position, Result, State, failed_at

# Spark is tried again after these times, doubled from the first to the longest.
FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 600.0
# How long a template that was too slow for the loop stays out of it the first time.
FIRST_LANE_S = 30.0


class Failure(Struct, frozen=True):
    """Why a query has no result."""

    sqlstate: str
    message: str


class Request:
    """A subscriber's request for the whole result."""

    def __init__(self, wanted: SnapshotWanted, since_s: float) -> None:
        self.wanted, self.since_s = wanted, since_s
        # A barrier that we emitted because the one that the request names did not come.
        self.own_barrier: str | None = None

    def wait_for(self, own_barrier: str) -> None:
        self.own_barrier = own_barrier

    def wait_again(self, now_s: float) -> None:
        """Count the time until a barrier of our own from now."""
        self.since_s = now_s


class LiveQuery:
    """One query: its result if it has one, the open requests for it, and the state that its readers know."""

    def __init__(self, partition: int, query: Query, template: "LiveTemplate", told: State | None) -> None:
        self.partition, self.query, self.template = partition, query, template
        # What readers know while there is no result; with a result it is the result's state.
        self.told = told
        self.result: Result | None = None
        # The rows by the key of their table, where the strategy is row-local and the table has one.
        self.by_key: dict[ResultRow, ResultRow] | None = None
        self.failure: Failure | None = None
        # The place in the log that PostgreSQL failed at; None: it is the query that fails, whatever the data.
        self.failure_at: Position | None = None
        self.requests: dict[bytes, Request] = {}
        # The parameters as the log would print them; None until PostgreSQL has read them.
        self.values: ResultRow | None = None
        # Spark could not evaluate it: PostgreSQL does, until this time, after which Spark is tried again.
        self.by_postgres_until_s: float | None = None
        self._retry_after_s = FIRST_RETRY_S
        # From the commit until its delta was written, of the last change.
        self.latency_us: int | None = None

    @property
    def id(self) -> bytes:
        return self.query.query_id

    @property
    def parameters(self) -> tuple[bytes | None, ...]:
        return tuple(given.value if given.HasField("value") else None for given in self.query.parameters)

    @property
    def is_by_postgres(self) -> bool:
        plan = self.template.plan
        return self.by_postgres_until_s is not None or (plan is not None and plan.strategy is Strategy.SOURCE)

    @property
    def known_state(self) -> State | None:
        """The state that readers know."""
        return self.told if self.result is None else self.result.state

    def written(self, latency_us: int) -> None:
        """A change of it was written so long after its commit."""
        self.latency_us = latency_us

    def request(self, wanted: SnapshotWanted, now_s: float) -> None:
        self.requests.setdefault(wanted.request_id, Request(wanted, now_s))

    def request_answered(self, request_id: bytes) -> None:
        del self.requests[request_id]

    def set_values(self, values: ResultRow | None) -> None:
        """The parameters as the log would print them; a first evaluation can begin."""
        self.values = values
        self.template.wait_for_first_result()

    def follow_plan(self) -> None:
        """Evaluate as the plan says, whatever Spark failed on before."""
        self.by_postgres_until_s = None

    def leave_to_postgres(self, now_s: float, *, at_least_s: float = 0.0) -> None:
        """Spark failed on it; the next try comes later each time."""
        self._retry_after_s = max(self._retry_after_s, at_least_s)
        self.by_postgres_until_s = now_s + self._retry_after_s
        self._retry_after_s = min(self._retry_after_s * 2, LONGEST_RETRY_S)

    def try_spark_again(self, now_s: float) -> bool:
        """Whether Spark evaluates it from now on, because the time to leave it to PostgreSQL is over."""
        if self.by_postgres_until_s is None or now_s < self.by_postgres_until_s:
            return False
        self.by_postgres_until_s = None
        if self.is_by_postgres:
            return False
        self.suspend()
        return True

    def new_result(self, history: int) -> Result:
        """An empty result with the columns of the plan; `result_begun` when its first rows are written."""
        plan = self.template.plan
        assert plan is not None
        columns = [
            ResultColumn(name=column.name, type_oid=column.type.oid, type_modifier=column.type.modifier)
            for column in plan.columns
        ]
        self.result = Result(self.id, history, columns, plan.key_positions, ordered=plan.ordered)
        return self.result

    def result_begun(self) -> None:
        self.told, self.failure = None, None

    def set_by_key(self, by_key: dict[ResultRow, ResultRow] | None) -> None:
        self.by_key = by_key

    def suspend(self) -> None:
        """Drop the result, to be computed anew; what readers know stays known."""
        if self.result is not None:
            self.told, self.result, self.by_key = self.result.state, None, None
        self.template.wait_for_first_result()

    def lose_track(self, history: int) -> None:
        """Drop the result after a write that failed halfway: only the place that readers stand at is known."""
        if self.result is not None:
            at = self.result.position
            self.told = State(Standing(history, at.lsn, at.moment_us), None, ())
            self.result, self.by_key = None, None

    def fail(self, failure: Failure, at: Position | None) -> bool:
        """There is no result for now; false if that was known. `at`: the data that it fails on."""
        self.failure_at = at
        if failure == self.failure:
            return False
        self.suspend()
        self.failure = failure
        return True

    def error_told(self, error: Delta) -> None:
        """Readers stand at an error, and have to be told the next good state."""
        self.told = failed_at(error)


class LaneState:
    """Where a template is evaluated: in the slow lane until its cost is known to be small, else in the loop."""

    def __init__(self) -> None:
        self.is_in, self.is_under_way = True, False
        # It shares no job: one that it was in took too long, or a worker ended during one.
        self.is_alone = False
        # Commits that concern it came during its evaluation, so that looking at the newest changes is not enough.
        self.is_behind = False
        # A template that was too slow for the loop is not taken back before this.
        self._until_s, self._rest_s = 0.0, FIRST_LANE_S

    def enter(self, now_s: float) -> None:
        """It was too slow for the loop."""
        self.is_in = self.is_behind = True
        self._until_s, self._rest_s = now_s + self._rest_s, min(2 * self._rest_s, LONGEST_RETRY_S)

    def begin(self) -> None:
        self.is_under_way = True

    def end(self) -> None:
        self.is_under_way = False

    def set_alone(self, is_alone: bool) -> None:
        self.is_alone = is_alone

    def set_behind(self, is_behind: bool) -> None:
        self.is_behind = is_behind

    def grade(self, *, is_costly: bool, is_behind: bool, now_s: float) -> None:
        """Decide by the cost of its last evaluation where the next one takes place."""
        self.is_in = is_costly or now_s < self._until_s
        self.is_alone, self.is_behind = is_costly, is_behind


class LiveTemplate:
    """Queries that differ in their parameters alone: one plan, one job."""

    def __init__(self, template_id: bytes, query: Query) -> None:
        self.id, self.query = template_id, query
        self.members: dict[bytes, LiveQuery] = {}
        # Queries of other workers that a warm standby keeps plan and tables ready for.
        self.watched: set[bytes] = set()
        self.plan: Plan | None = None
        self.tables: dict[int, Table] = {}
        self.refusal: Failure | None = None
        # DDL touched what it depends on, and the plan that counts from there is on its way.
        self.is_in_doubt = False
        # A commit since the last tick concerns it; some of its queries wait for a first result.
        self.is_touched = self.is_waiting = False
        # When a query that reads the clock is evaluated again.
        self.next_moment_s: float | None = None
        self.lane = LaneState()
        # Rights have changed, and whether its role still has them is not known yet.
        self.unverified_since_s: float | None = None

    def add(self, live: LiveQuery) -> None:
        self.members[live.id] = live
        self.watched.discard(live.id)

    def remove(self, query_id: bytes) -> None:
        del self.members[query_id]

    def watch(self, query_id: bytes) -> None:
        self.watched.add(query_id)

    def unwatch(self, query_id: bytes) -> None:
        self.watched.discard(query_id)

    def set_plan(self, plan: Plan, tables: dict[int, Table]) -> None:
        self.plan, self.tables, self.refusal, self.is_in_doubt = plan, tables, None, False

    def refuse(self, refusal: Failure) -> None:
        self.plan, self.tables, self.refusal, self.is_in_doubt = None, {}, refusal, False

    def doubt(self) -> None:
        """The plan may mean something else by now; nothing is evaluated until there is a new one."""
        self.is_in_doubt = True

    def touch(self) -> None:
        """A commit concerns it."""
        self.is_touched = True

    def wait_for_first_result(self) -> None:
        self.is_waiting = True

    def evaluation_begun(self) -> None:
        """All that asked for an evaluation is part of the one that begins now."""
        self.is_touched = self.is_waiting = False
        self.lane.set_behind(False)

    def evaluate_again(self) -> None:
        """The last evaluation was in vain."""
        self.is_waiting = True
        self.lane.set_behind(True)

    def set_next_moment(self, next_moment_s: float | None) -> None:
        self.next_moment_s = next_moment_s

    def doubt_rights(self, now_s: float) -> None:
        if self.unverified_since_s is None:
            self.unverified_since_s = now_s

    def verify_rights(self, began_s: float) -> None:
        """A plan that began then has shown the rights that the role had then."""
        if self.unverified_since_s is not None and began_s >= self.unverified_since_s:
            self.unverified_since_s = None

    def rights_overdue(self, now_s: float, limit_s: float) -> bool:
        """Whether its rights could not be verified for too long; said once."""
        if self.unverified_since_s is None or now_s - self.unverified_since_s <= limit_s:
            return False
        self.unverified_since_s = None
        return True

    @property
    def login(self) -> str:
        """In whose turn work is done for it."""
        return self.query.login or self.query.role

    @property
    def is_wanted(self) -> bool:
        return bool(self.members or self.watched)

    @property
    def is_current(self) -> bool:
        """Whether Spark's results of it are the state at the place where the log stands."""
        return not (self.is_touched or self.lane.is_behind or self.lane.is_under_way)

    @property
    def reads(self) -> frozenset[int]:
        return frozenset() if self.plan is None else frozenset(read.table for read in self.plan.reads)

    @property
    def needs_tables(self) -> bool:
        return self.plan is not None and self.plan.strategy is not Strategy.SOURCE

    def without_result(self) -> Iterable[LiveQuery]:
        return [
            one
            for one in self.members.values()
            if one.result is None and one.values is not None and not one.is_by_postgres
        ]

    def with_result(self) -> Iterable[LiveQuery]:
        return [one for one in self.members.values() if one.result is not None and not one.is_by_postgres]

    def moment_after(self, now_us: int) -> int:
        """A moment for now() that is later than any that its readers know."""
        known = [one.told.standing.moment_us for one in self.members.values() if one.told is not None]
        known += [one.result.position.moment_us for one in self.members.values() if one.result is not None]
        return max(now_us, *(moment + 1 for moment in known), 0)

    def position(self, log: Position, moment_us: int) -> Position:
        reads_clock = self.plan is not None and self.plan.reads_clock
        return Position(log.lsn, moment_us) if reads_clock else log
