"""The log as this gateway has it: its newest part in memory, shared by all readers; further back from Kafka."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.pgoutput.messages import Relation
from proto.streams.changes import (
    BarrierPassed,
    ChangeEvent,
    ChangeUnwritable,
    Committed,
    HistoryBegan,
    Idle,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from services.chassis.health import PartProgress
from services.gateway.core.cdc.events import Columns
from services.gateway.core.cdc.marks import NOWHERE, Command, Mark, Marks, command_of
from services.gateway.core.cdc.tail import Entry, Tail, TailLimits
from services.gateway.core.cdc.window import Window
from services.gateway.inbound.changes import Batch, Changes, PastChanges

COMMITS_KEPT = 20_000
RELATIONS_KEPT = 2_000
BARRIERS_KEPT = 2_000
# However much DDL there is: rows behind it are held back with it, so that nothing is told by older rights.
DDL_APART_S = 0.05
JUDGED_S = 0.001
MOST_APART_S = 0.5
# Events of one batch that are taken in before others have a turn.
APPLIED_A_TURN = 500


class Commit(Struct, frozen=True):
    """A transaction: its xid, the last seq before it, and the last one of it."""

    xid: int
    before: int
    seq: int


class Stretch(Struct, frozen=True):
    """Entries of the tables asked for, and up to where the log was looked through."""

    entries: list[Entry]
    scanned: int
    # What was to be read next is no longer there.
    is_lost: bool = False


class ChangeLog:
    """One for the process."""

    def __init__(self, past: PastChanges, *, retention: int, limits: TailLimits, log: FilteringBoundLogger) -> None:
        self._past, self._retention, self._log = past, retention, log
        self._tail = Tail(limits)
        self._history, self._first = 0, 1
        self._listeners: dict[int, set[asyncio.Event]] = {}
        self._barriers: dict[str, asyncio.Future[int]] = {}
        # Barriers may come out of the log before whoever wrote them has begun to wait.
        self._passed: OrderedDict[str, int] = OrderedDict()
        self._columns: OrderedDict[tuple[int, frozenset[str] | None], Columns] = OrderedDict()
        # Of the transaction that is being read: it counts when it is whole.
        self._open_barriers: list[str] = []
        self._open_commands: list[Command] = []
        self._open_changed: set[int] = set()
        # The last seq of the last commit that was read; None before the first.
        self._committed: int | None = None
        # The last seq of a whole transaction: nobody reads further.
        self._whole = 0
        self.marks = Marks()
        # Of DDL that is in the log and that PostgreSQL was not yet seen to show to others.
        self.unsettled: set[int] = set()
        self.commits: deque[Commit] = deque(maxlen=COMMITS_KEPT)
        # Grows when a table or a right may have changed.
        self.schema_generation = 0
        self.is_known = False
        self._ddl_s = 0.0
        # Up to where the log was read, and how old its last commit was when it came in: for who watches.
        self.lsn, self.freshness_s = 0, 0.0
        # When the last change was taken in, for metrics.
        self.changed_s = time.monotonic()

    async def follow(self, changes: Changes, progress: PartProgress) -> None:
        """Take in what comes, until cancelled."""
        async for batch in changes.batches():
            if self.is_known and any(isinstance(event, SchemaChanged) for event in batch.events):
                await asyncio.sleep(self._ddl_s + self._ddl_apart_s - time.monotonic())
            generation = self.schema_generation
            await self._apply(batch)
            if self.schema_generation != generation:
                self._ddl_s = time.monotonic()
            if batch.is_at_end and not self.is_known:
                self.is_known = True
                progress.ready()

    @property
    def window(self) -> Window:
        return Window(retention=self._retention, latest=self._whole, history=self._history, first=self._first)

    @property
    def latest(self) -> int:
        return self._whole

    @property
    def held(self) -> tuple[int, int]:
        """Events and bytes in memory."""
        return len(self._tail), self._tail.held_bytes

    def holds(self, after: int) -> bool:
        """Whether what follows this seq is in memory."""
        return after + 1 >= self._tail.first

    async def read(self, after: int, tables: frozenset[int], most: int) -> Stretch:
        """The next changes of these tables behind `after`: from memory, or from Kafka if it is further back."""
        if self.holds(after):
            found: list[Entry] = []
            for entry in self._tail.after(after, tables):
                if entry.change.seq > self._whole:
                    break
                found.append(entry)
                if len(found) >= most:
                    return Stretch(found, entry.change.seq)
            return Stretch(found, max(after, self._whole))
        past = await self._past.read(after, min(self._whole, self._tail.first - 1), tables, most)
        if past is None:
            return Stretch([], after, is_lost=True)
        return Stretch([Entry(change, {}) for change in past.changes], past.scanned)

    @property
    def _ddl_apart_s(self) -> float:
        """How long after DDL the next may come in: by then whoever reads has been judged anew and read something."""
        readers = sum(map(len, self._listeners.values()))
        return min(DDL_APART_S + readers * JUDGED_S, MOST_APART_S)

    def keep(self, entry: Entry, look: object, data: bytes) -> None:
        """An entry's bytes, for others that show it alike."""
        self._tail.keep(entry, look, data)

    @contextmanager
    def listening(self, tables: frozenset[int]) -> Iterator[asyncio.Event]:
        """An event that is set when one of these tables has changed; whoever waits clears it."""
        changed = asyncio.Event()
        for oid in tables:
            self._listeners.setdefault(oid, set()).add(changed)
        try:
            yield changed
        finally:
            for oid in tables:
                others = self._listeners.get(oid, set())
                others.discard(changed)
                if not others:
                    self._listeners.pop(oid, None)

    def barrier(self, barrier_id: str) -> asyncio.Future[int]:
        """Done, with the last seq before it, when this barrier has come out of the log."""
        waiting = self._barriers.setdefault(barrier_id, asyncio.get_running_loop().create_future())
        if barrier_id in self._passed:
            self._passing(barrier_id)
        return waiting

    def forget_barrier(self, barrier_id: str) -> None:
        self._barriers.pop(barrier_id, None)

    def columns(self, relation: Relation, base_types: Mapping[int, int], only: frozenset[str] | None = None) -> Columns:
        """How this relation's values are shown; the reader gives the same object while nothing of it changes."""
        key = (id(relation), only)
        known = self._columns.get(key)
        if known is None or known.relation is not relation:
            known = self._columns[key] = Columns.of(relation, base_types, only)
            while len(self._columns) > RELATIONS_KEPT:
                self._columns.popitem(last=False)
        return known

    def forget_columns(self) -> None:
        """Types may mean something else."""
        self._columns.clear()

    async def _apply(self, batch: Batch) -> None:
        if batch.origin is not None:
            if self.is_known:
                self._log.warning("changes_begun_anew", reason="the log could not be read on")
            self.is_known = False
            self._history, self._first = batch.origin.history, batch.origin.first
            self._begin(0, None)
        changed: set[int] = set()
        for number, event in enumerate(batch.events):
            self._take(event, changed)
            if number % APPLIED_A_TURN == APPLIED_A_TURN - 1:
                self._wake(changed)
                await asyncio.sleep(0)
        if batch.next_seq - 1 > self._tail.latest:
            self._tail.begin(batch.next_seq - 1)
        self._whole = max(self._whole, batch.next_seq - 1)
        self.marks.forget_before(self.window.earliest)
        if batch.history:
            self._history = max(self._history, batch.history)
        self._wake(changed)

    def _take(self, event: ChangeEvent, changed: set[int]) -> None:
        match event:
            case RowChanged() | Truncated() | ChangeUnwritable():
                if event.seq > self._tail.latest or self._tail.latest == 0:
                    self._add(event)
                    self._open_changed.add(event.relation.oid)
            case Committed():
                self._commit(event)
                changed |= self._open_changed
                self._open_changed.clear()
            case BarrierPassed():
                self._open_barriers.append(event.barrier_id)
            case SchemaChanged():
                self._open_commands.append(command_of(event.description))
            case Idle():
                self.lsn = max(self.lsn, event.lsn)
            case HistoryBegan():
                self._begin_history(event)
                changed.update(self._listeners)

    def _add(self, change: RowChanged | Truncated | ChangeUnwritable) -> None:
        if self._tail.latest and change.seq != self._tail.latest + 1:
            self._tail.begin(change.seq - 1)
        self._tail.add(change)
        self.changed_s = time.monotonic()

    def _begin_history(self, event: HistoryBegan) -> None:
        self._history, self._first = event.history, max(1, event.first_seq)
        latest = max(self._first - 1, 0)
        self._begin(latest, latest)
        self._log.warning("history_began", history=event.history, because=event.because, first_seq=self._first)

    def _begin(self, latest: int, committed: int | None) -> None:
        """Nothing is known but the last seq."""
        self._tail.begin(latest)
        self._whole, self._committed = latest, committed
        for known in (self.commits, self.marks, self.unsettled, self._open_commands, self._open_changed):
            known.clear()
        self._open_barriers.clear()
        self.schema_generation += 1

    def _mark(self, committed: Committed) -> None:
        """From its commit on, DDL counts; its rows are not read before."""
        self.schema_generation += 1
        before = NOWHERE if self._committed is None else self._committed
        self.marks.add(
            Mark(
                generation=self.schema_generation,
                before=before,
                after=committed.next_seq - 1,
                commands=tuple(self._open_commands),
            )
        )
        self.unsettled.add(committed.xid)
        self._open_commands.clear()

    def _commit(self, committed: Committed) -> None:
        seq = committed.next_seq - 1
        self.lsn, self.freshness_s = committed.end_lsn, max(0.0, time.time() - committed.commit_time_us / 1e6)
        if self._open_commands:
            self._mark(committed)
        self._whole = seq
        if self._committed is not None:
            self.commits.append(Commit(committed.xid, self._committed, seq))
        self._committed = seq
        for barrier_id in self._open_barriers:
            self._passing(barrier_id)
        self._open_barriers.clear()

    def _passing(self, barrier_id: str) -> None:
        seq = self._passed.setdefault(barrier_id, self._tail.latest)
        while len(self._passed) > BARRIERS_KEPT:
            self._passed.popitem(last=False)
        waiting = self._barriers.pop(barrier_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(seq)

    def _wake(self, changed: set[int]) -> None:
        for oid in changed:
            for listener in self._listeners.get(oid, ()):
                listener.set()
        changed.clear()
