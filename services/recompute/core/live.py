"""What a worker keeps: templates with their plans, queries with their results, and who waits for them."""

from collections.abc import Iterable

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from services.recompute.core.catalog import Table
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.result import Position, Result, State


class Failure(Exception):
    """Why a query has no result."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate, self.message = sqlstate, message

    def same_as(self, other: "Failure | None") -> bool:
        return other is not None and (self.sqlstate, self.message) == (other.sqlstate, other.message)


class Request:
    """A whole result that is waited for."""

    def __init__(self, wanted: SnapshotWanted, since_s: float) -> None:
        self.wanted, self.since_s = wanted, since_s
        # A barrier of our own, if the one that was named did not come.
        self.own_barrier: str | None = None


class LiveQuery:
    """One query: its result if it has one, who waits for it, and what readers were told before."""

    def __init__(self, partition: int, query: Query, template: "LiveTemplate", told: State | None) -> None:
        self.partition, self.query, self.template, self.told = partition, query, template, told
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
        self.retry_after_s = FIRST_RETRY_S

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

    def leave_to_postgres(self, now_s: float) -> None:
        """Spark failed on it; the next try comes later each time."""
        self.by_postgres_until_s = now_s + self.retry_after_s
        self.retry_after_s = min(self.retry_after_s * 2, LONGEST_RETRY_S)

    def suspend(self) -> None:
        """Its result is not to be gone on with; what readers were told stays known."""
        if self.result is not None:
            self.told, self.result, self.by_key = self.result.state, None, None
        self.template.is_waiting = True


FIRST_RETRY_S = 10.0
LONGEST_RETRY_S = 600.0


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
        self.next_moment_s: float | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self.members or self.watched)

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
