"""A small world of captures that stall, die and wake up: the real core, with Kafka, slot and ledger as plain data."""

from collections import deque
from collections.abc import Generator, Iterator

from msgspec import Struct
from msgspec.structs import replace

from proto.positions import Lsn
from proto.streams.changes import ChangesReader
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import ChangesRecord, Fence
from services.capture.core.assembly import Assembly, Position
from services.capture.core.continuity import (
    SEQS_PER_HISTORY,
    BeginHistory,
    Continuity,
    Database,
    Ledger,
    Slot,
    Tail,
    judge,
)
from services.capture.core.records import Header
from services.capture.core.tail import TailRecord, fold, fold_from
from tests.property.wal import Transaction, Walsender

RECORD_BYTES = 150
ROW_LIMIT_BYTES = 1 << 20


class HeldSlot:
    def __init__(self, confirmed_lsn: int) -> None:
        self.confirmed_lsn = confirmed_lsn
        self.lost = False
        self.holder: SimulatedCapture | None = None


class Outgoing(Struct):
    value: bytes
    durable_lsn: int | None


class World:
    """One database, one partition, and everybody who writes to it."""

    def __init__(self, *, careful: bool) -> None:
        self.careful = careful
        self.cluster = (7, 1)
        self.clusters: dict[tuple[int, int], list[Transaction]] = {self.cluster: []}
        self.flushed = 100
        self.slot: HeldSlot | None = None
        self.ledger = Ledger(epoch=0, fenced=0, history=0)
        self.fence_offset = 0
        self.log: list[bytes] = []
        self.low = 0
        self.captures: list[SimulatedCapture] = []

    @property
    def transactions(self) -> list[Transaction]:
        return self.clusters[self.cluster]

    @property
    def database(self) -> Database:
        return Database(
            system_identifier=self.cluster[0], timeline=self.cluster[1], name="app", flushed_lsn=Lsn(self.flushed)
        )

    def commit(self, transaction: Transaction) -> None:
        self.transactions.append(transaction)
        self.flushed = transaction.end_lsn

    def stretch(self, start: int, end: int) -> Iterator[TailRecord]:
        for offset in range(start, end):
            yield TailRecord(offset, self.log[offset], ChangesRecord.FromString(self.log[offset]))

    def read_tail(self) -> Tail | None:
        if self.low == len(self.log):
            return None
        start = fold_from(self.stretch, self.ledger, self.fence_offset, self.low, len(self.log))
        tail, in_force = fold(self.stretch(start, len(self.log)))
        self.check(tail, in_force)
        return tail

    def check(self, tail: Tail, in_force: Identity) -> None:
        """The quick look at the end of the log says what reading all of it, also what was trimmed, says, or less."""
        reader = ChangesReader()
        for value in self.log:
            for _ in reader.feed(value):
                pass
        assert (in_force, tail.history) == (reader.fencing.in_force, reader.history)
        assert tail.committed_lsn <= reader.committed_lsn

    def spawn(self) -> "SimulatedCapture":
        self.captures.append(SimulatedCapture(self, writer=len(self.captures) + 1))
        return self.captures[-1]

    def run_one_to_the_end(self) -> None:
        """One capture alone, after all others died, with time enough; it may have to start several times."""
        for capture in self.captures:
            capture.die()
        for _ in range(4):
            capture = self.spawn()
            for _ in range(400):
                capture.step(3)
                capture.deliver(100)
                if capture.idle:
                    return
                if capture.over:
                    break
            capture.die()
        raise AssertionError("no capture came to the end of the WAL")


class SimulatedCapture:
    """One process; every yield of its life is a place where it may stall for long or for ever."""

    def __init__(self, world: World, *, writer: int) -> None:
        self.world, self.writer = world, writer
        self.outbox: deque[Outgoing] = deque()
        self.inbox: deque[bytes | int] = deque()
        self.over = self.dead = self.idle = False
        self.position: Position | None = None
        self._fence_offset: int | None = None
        self._durable_lsn = 0
        self._walsender: Walsender | None = None
        self._header: Header | None = None
        self._choice = 0
        self._life = self._live()

    def step(self, choice: int) -> None:
        self._choice = choice
        if not self.over and next(self._life, "over") == "over":
            self.end()

    def deliver(self, count: int) -> None:
        """Kafka takes what was sent, in this writer's order; also of the dead, whose records were on their way."""
        for _ in range(min(count, len(self.outbox))):
            sent = self.outbox.popleft()
            self.world.log.append(sent.value)
            if not self.dead:
                self._fence_offset = self._fence_offset or len(self.world.log)
                self._durable_lsn = max(self._durable_lsn, sent.durable_lsn or 0)

    def lose_walsender(self) -> None:
        if self.world.slot is not None and self.world.slot.holder is self:
            self.world.slot.holder = None

    def end(self) -> None:
        self.over = True
        self.lose_walsender()

    def die(self) -> None:
        self.dead = True
        self.end()

    @property
    def holds_slot(self) -> bool:
        return self.world.slot is not None and self.world.slot.holder is self

    def _live(self) -> Generator[None, None, None]:
        """As services/capture/flow/takeover.py and stream.py do it."""
        held = yield from self._take_slot()
        if held is None:
            return
        continuity, tail, slot_lsn = held
        yield
        position = yield from self._fence(continuity, tail, slot_lsn)
        if position is not None:
            yield
            yield from self._stream(position)

    def _take_slot(self) -> Generator[None, None, tuple[Continuity, Tail | None, int] | None]:
        continuity, _ = self._judged()
        yield
        anew = isinstance(continuity, BeginHistory) and not continuity.keep_slot
        if anew:
            while self.world.slot is not None and self.world.slot.holder is not None:
                yield
            if self.world.careful and self._judged()[0] != continuity:
                return None
            self.world.slot = None
            yield
            if self.world.slot is not None:
                return None
            self.world.flushed += 8  # a new slot has PostgreSQL log its running transactions
            self.world.slot = HeldSlot(self.world.flushed)
            yield
        while self.world.slot is not None and self.world.slot.holder is not None:
            yield
        slot = self.world.slot
        if slot is None or slot.lost:
            return None
        slot.holder = self
        self._walsender = Walsender(self.world.transactions, slot.confirmed_lsn)
        slot_lsn = slot.confirmed_lsn
        yield
        if anew:
            return continuity, self.world.read_tail(), slot_lsn
        continuity, tail = self._judged()
        return continuity, tail, slot_lsn

    def _judged(self) -> tuple[Continuity, Tail | None]:
        world, tail = self.world, self.world.read_tail()
        slot = world.slot and Slot(confirmed_lsn=Lsn(world.slot.confirmed_lsn), lost=world.slot.lost)
        return judge(tail=tail, ledger=world.ledger, slot=slot, database=world.database), tail

    def _fence(
        self, continuity: Continuity, tail: Tail | None, slot_lsn: int
    ) -> Generator[None, None, Position | None]:
        world, noted, noted_offset = self.world, self.world.ledger, self.world.fence_offset
        if world.careful and not self.holds_slot:
            return None
        epoch = max(noted.epoch, tail.epoch if tail else 0) + 1
        world.ledger = replace(noted, epoch=epoch)
        if world.careful and isinstance(continuity, BeginHistory):
            continuity = self._numbered(continuity, tail)
            world.ledger = replace(world.ledger, history=continuity.history)
        yield
        system_identifier, timeline = world.cluster
        identity = Identity(epoch, self.writer)
        self._header = Header(
            identity=identity, history=continuity.history, system_identifier=system_identifier, timeline=timeline
        )
        if isinstance(continuity, BeginHistory):
            position = Position(Lsn(slot_lsn), continuity.first_seq)
            fence = Fence(
                began_because=continuity.because,
                history_lsn=position.lsn,
                history_seq=position.seq,
                begins_history=True,
            )
        else:
            position = Position(tail.committed_lsn, tail.committed_seq)
            fence = Fence()
        self.outbox.append(Outgoing(self._header.fence(fence, position).SerializeToString(), None))
        while self._fence_offset is None:
            yield
        offset = self._fence_offset - 1
        start = fold_from(world.stretch, noted, noted_offset, world.low, offset)
        before, in_force = fold(world.stretch(start, offset + 1))
        if in_force != identity:
            return None
        yield
        if world.ledger.fenced < epoch:
            world.ledger = replace(world.ledger, fenced=epoch, history=max(world.ledger.history, continuity.history))
            world.fence_offset = offset
        if isinstance(continuity, BeginHistory):
            return position
        return Position(before.committed_lsn, before.committed_seq)

    def _numbered(self, continuity: BeginHistory, tail: Tail | None) -> BeginHistory:
        """A history number that nobody else has or gets, as the epoch."""
        history = max(self.world.ledger.history, tail.history if tail else 0) + 1
        used = tail.committed_seq if tail else 0
        return replace(continuity, history=history, first_seq=max((history - 1) * SEQS_PER_HISTORY, used) + 1)

    def _stream(self, position: Position) -> Generator[None, None, None]:
        self.position = position
        assembly = Assembly(position, row_limit_bytes=ROW_LIMIT_BYTES)
        sent_lsn = 0
        while self.inbox or self.holds_slot:
            if self.holds_slot:
                self.inbox.extend(self._walsender.more())
                self.inbox.append(self.world.flushed)
                self.world.slot.confirmed_lsn = max(self.world.slot.confirmed_lsn, self._durable_lsn)
            for _ in range(min(len(self.inbox), 1 + 3 * self._choice)):
                received = self.inbox.popleft()
                if isinstance(received, int):
                    sent_lsn = received
                else:
                    assembly.add(received)
            if self._choice % 3 == 0:
                self._send(assembly)
                if self._choice and not assembly.in_transaction:
                    self._heartbeat(assembly.idle_until(Lsn(sent_lsn)))
            self.idle = self._choice % 3 == 0 and not self.inbox and not assembly.in_transaction
            yield

    def _send(self, assembly: Assembly) -> None:
        cut = assembly.cut()
        if cut is not None:
            *pieces, last = self._header.segments(cut, record_bytes=RECORD_BYTES)
            self.outbox.extend(Outgoing(piece.SerializeToString(), None) for piece in pieces)
            self.outbox.append(Outgoing(last.SerializeToString(), cut.after.lsn))

    def _heartbeat(self, position: Position) -> None:
        self.outbox.append(Outgoing(self._header.heartbeat(position, 1).SerializeToString(), position.lsn))
