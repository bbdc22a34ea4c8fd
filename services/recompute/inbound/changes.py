"""The log as the worker reads it: whole commits, barriers, and where it stands."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec import Struct

from proto.positions import Lsn, Seq, Xid
from proto.streams.changes import (
    BarrierPassed,
    ChangeEvent,
    ChangeUnwritable,
    Committed,
    HistoryBegan,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from services.chassis.changes import ChangesFollower
from services.recompute.core.commits import Commits
from services.recompute.core.result import Position
from services.recompute.core.schema_marks import SchemaMark, read_mark

REMEMBERED_BARRIERS = 10_000
CATCH_UP_WAIT_S = 0.2

TableEvent: TypeAlias = RowChanged | Truncated | ChangeUnwritable | SchemaChanged


class Commit(Struct, frozen=True):
    """One whole transaction."""

    position: Position
    xid: Xid
    events: tuple[TableEvent, ...]
    # Where the log stood before it.
    before: Position

    @property
    def ddl(self) -> tuple[SchemaMark, ...]:
        return tuple(read_mark(event.description) for event in self.events if isinstance(event, SchemaChanged))


class CommitLog:
    """Follows `changes` and hands out transactions when they are whole."""

    def __init__(self, follower: ChangesFollower) -> None:
        self._follower = follower
        self._open: list[TableEvent] = []
        self.position = Position(Lsn(0), 0)
        self.commits = Commits()
        self.barriers: OrderedDict[str, int] = OrderedDict()

    @property
    def history(self) -> int:
        return self._follower.reader.history

    @property
    def reached(self) -> Lsn:
        """All commits before it have come out."""
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
        """Read to the end that the log has now; only barriers and commits are remembered of it."""
        end = self._follower.end()
        while self._follower.offset < end:
            for _ in self.read(CATCH_UP_WAIT_S):
                pass
            while_waiting()

    def read(self, timeout_s: float) -> Iterator[Commit | HistoryBegan]:
        """The transactions that are at hand, or come within the timeout."""
        for event in self._follower.read(timeout_s):
            if isinstance(event, HistoryBegan):
                self._open = []
                yield event
            else:
                yield from self._take(event)

    def _take(self, event: ChangeEvent) -> Iterator[Commit]:
        match event:
            case RowChanged() | Truncated() | ChangeUnwritable() | SchemaChanged():
                self._open.append(event)
            case BarrierPassed(barrier_id=barrier_id, commit_lsn=lsn):
                self.barriers[barrier_id] = lsn
                if len(self.barriers) > REMEMBERED_BARRIERS:
                    self.barriers.popitem(last=False)
            case Committed():
                before, self.position = self.position, Position(event.commit_lsn, event.commit_time_us)
                self.commits.passed(event.xid)
                events, self._open = tuple(self._open), []
                yield Commit(self.position, event.xid, events, before)
            case _:
                pass
