"""What a worker keeps: queries with their results, tables with their replicas, and where the log stands."""

from collections import deque
from typing import Protocol

from proto.positions import Xid
from proto.streams.changes import RowChanged, Truncated
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from services.recompute.core.query import RowLocal, Select
from services.recompute.core.replica import Replica
from services.recompute.core.result import Result, State
from services.recompute.core.table import Table

# As many commits of the past as a snapshot is compared with.
REMEMBERED_COMMITS = 10_000


class Snapshot(Protocol):
    """What a base was read from."""

    def sees(self, xid: Xid) -> bool: ...


class Failure(Exception):
    """Why a query has no result."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate, self.message = sqlstate, message


class Request:
    """A whole result that is waited for."""

    def __init__(self, wanted: SnapshotWanted, since_s: float) -> None:
        self.wanted, self.since_s = wanted, since_s
        # A barrier of our own, if the one that was named did not come.
        self.own_barrier: str | None = None


class LiveQuery:
    """One query: how it is kept, its result if it has one, who waits for it, and what readers were told before."""

    def __init__(self, partition: int, query: Query, told: State | None) -> None:
        self.partition, self.query, self.told = partition, query, told
        self.parsed: Select | None = None
        self.plan: RowLocal | None = None
        self.result: Result | None = None
        self.failure: Failure | None = None
        self.requests: dict[bytes, Request] = {}

    @property
    def id(self) -> bytes:
        return self.query.query_id

    def parameters(self) -> list[bytes | None]:
        return [given.value if given.HasField("value") else None for given in self.query.parameters]


class LiveTable:
    """A table that queries read: being loaded, while its changes pile up, or kept up with the log."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.replica: Replica | None = None
        self.backlog: list[RowChanged | Truncated] = []
        # What the log had shown when the backlog began: a snapshot that does not see all of it cannot be used.
        self.committed_before: tuple[Xid, ...] = ()
        self.queries: dict[bytes, LiveQuery] = {}

    def begin_load(self, commits: "Commits") -> None:
        self.replica, self.backlog, self.committed_before = None, [], commits.known()

    def is_fit(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot with the backlog gives a state that was committed."""
        return all(snapshot.sees(xid) for xid in self.committed_before)


class Commits:
    """The transactions that the log has shown, as far back as it is of use."""

    def __init__(self) -> None:
        self._xids: deque[Xid] = deque(maxlen=REMEMBERED_COMMITS)

    def passed(self, xid: Xid) -> None:
        self._xids.append(xid)

    def known(self) -> tuple[Xid, ...]:
        return tuple(self._xids)
