"""Reads `changes`: whole commits, barriers, and the position in the log."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from msgspec import Struct

from proto.positions import Lsn, Seq, Xid
from proto.streams.changes import (
    BarrierPassed,
    ChangeEvent,
    ChangeUnwritable,
    Committed,
    HistoryBegan,
    Registered,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from services.changelog.follower import ChangesFollower
from services.recompute.core.commits import Commits
from services.recompute.core.result import Position
from services.recompute.core.schema_marks import SchemaMark, read_mark
from services.recompute.inbound.open_transaction import MOST_BYTES, OpenTransaction, TableEvent

REMEMBERED_BARRIERS = 10_000
CATCH_UP_WAIT_S = 0.2


class Commit(Struct, frozen=True):
    """One whole transaction."""

    position: Position
    xid: Xid
    events: tuple[TableEvent, ...]
    # Where the log stood before it.
    before: Position
    # Registrations of the NOTIFY door, as pgr.subscribe wrote them.
    registrations: tuple[bytes, ...] = ()

    @property
    def ddl(self) -> tuple[SchemaMark, ...]:
        return tuple(read_mark(event.description) for event in self.events if isinstance(event, SchemaChanged))


class CommitLog:
    """Follows `changes` and yields whole transactions, with the rows of those tables only that queries read."""

    def __init__(self, follower: ChangesFollower, *, most_bytes: int = MOST_BYTES) -> None:
        self._follower, self._most_bytes = follower, most_bytes
        self._is_read: Callable[[int], bool] = lambda oid: True
        follower.is_read = lambda oid: self._is_read(oid)
        self._open = self._opened()
        self._registrations: tuple[bytes, ...] = ()
        self.position = Position(Lsn(0), 0)
        self.commits = Commits()
        self.barriers: OrderedDict[str, int] = OrderedDict()

    def keep_rows_of(self, is_read: Callable[[int], bool]) -> None:
        """Keep only the rows of tables, by oid, that somebody reads."""
        self._is_read = is_read

    @property
    def history(self) -> int:
        return self._follower.reader.history

    @property
    def reached(self) -> Lsn:
        """All commits before this LSN have been read."""
        return self._follower.reader.committed_lsn

    @property
    def next_seq(self) -> Seq:
        """The seq of the first change of the next commit."""
        return self._follower.reader.committed_seq

    @property
    def offset(self) -> int:
        """The offset in `changes` behind what was read."""
        return self._follower.offset

    def catch_up(self, while_waiting: Callable[[], None]) -> None:
        """Read to the present end of the log; only barriers and commit ids of it are kept."""
        end = self._follower.end()
        is_read, self._is_read = self._is_read, lambda oid: False
        while self._follower.offset < end:
            for _ in self.read(CATCH_UP_WAIT_S):
                pass
            while_waiting()
        self._is_read = is_read

    def read(self, timeout_s: float) -> Iterator[Commit | HistoryBegan]:
        """The transactions that have arrived, or arrive within the timeout."""
        for event in self._follower.read(timeout_s):
            if isinstance(event, HistoryBegan):
                self._open, self._registrations = self._opened(), ()
                yield event
            else:
                yield from self._take(event)

    def _opened(self) -> OpenTransaction:
        return OpenTransaction(lambda oid: self._is_read(oid), self._most_bytes)

    def _take(self, event: ChangeEvent) -> Iterator[Commit]:
        match event:
            case RowChanged() | Truncated() | ChangeUnwritable() | SchemaChanged():
                self._open.add(event)
            case Registered(description=description):
                self._registrations += (description,)
            case BarrierPassed(barrier_id=barrier_id, commit_lsn=lsn):
                self.barriers[barrier_id] = lsn
                if len(self.barriers) > REMEMBERED_BARRIERS:
                    self.barriers.popitem(last=False)
            case Committed():
                before, self.position = self.position, Position(event.commit_lsn, event.commit_time_us)
                self.commits.passed(event.xid)
                events, self._open = self._open.events, self._opened()
                registrations, self._registrations = self._registrations, ()
                yield Commit(self.position, event.xid, events, before, registrations)
            case _:
                pass
