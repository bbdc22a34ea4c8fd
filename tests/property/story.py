"""Stories of captures: generated actions on a world, and what a reader made of the log afterwards."""

from collections.abc import Callable, Iterable

from hypothesis import strategies as st
from msgspec import Struct

from proto.streams.changes import (
    BarrierPassed,
    ChangeEvent,
    ChangesReader,
    Committed,
    HistoryBegan,
    Idle,
    Registered,
    RowChanged,
    SchemaChanged,
    SchemaSeen,
    Truncated,
)
from proto.streams.topic_marks import ActorNamed, RowsTruncated, TopicDefined
from proto.tidewire.v1.changes_pb2 import ChangesRecord
from services.capture.core.continuity import Ledger
from tests.property import wal
from tests.property.captures import World

SCHEMAS = ("public", "public", "public", "_tidewire")
TABLES = range(len(SCHEMAS))
ROWS = {"insert": wal.insert, "update": wal.update, "delete": wal.delete}

MARKS = ("barrier", "ddl", "registration", "topics", "truncated", "of a newer version")

OP = st.one_of(
    st.tuples(st.sampled_from(sorted(ROWS)), st.sampled_from(TABLES)),
    st.tuples(st.just("truncate"), st.lists(st.sampled_from(TABLES), min_size=1, max_size=3, unique=True).map(tuple)),
    st.tuples(st.just("mark"), st.sampled_from(MARKS)),
    st.tuples(
        st.just("message"), st.sampled_from(["tidewire.barrier", "tidewire.ddl", "tidewire.actor", "other", "stray"])
    ),
    st.tuples(st.just("alter"), st.sampled_from(TABLES), st.integers(1, 4), st.sampled_from(wal.IDENTITIES)),
    st.tuples(st.just("many"), st.sampled_from(TABLES), st.integers(2, 25)),
)
COMMIT = st.tuples(st.just("commit"), st.lists(OP, max_size=5).map(tuple))
WHO = st.integers(0, 3)
CHOICE = st.integers(0, 4)
CRASHES = st.one_of(
    COMMIT,
    COMMIT,
    st.tuples(st.just("succeed"), st.sampled_from(["unplug", "unplug", "die", "wait"]), st.integers(0, 20), CHOICE),
    st.tuples(st.just("succeed"), st.sampled_from(["unplug", "die"]), st.integers(11, 25), CHOICE),
    st.tuples(st.just("run"), WHO, st.integers(1, 20), CHOICE),
    st.tuples(st.just("step"), WHO, st.integers(1, 6), CHOICE),
    st.tuples(st.just("deliver"), WHO, st.integers(1, 6)),
    st.tuples(st.just("unplug"), WHO),
    st.tuples(st.just("die"), WHO),
    st.tuples(st.just("wal"), st.integers(1, 50)),
)
DAMAGES = st.one_of(
    st.tuples(st.just("invalidate slot")),
    st.tuples(st.just("drop slot")),
    st.tuples(st.just("restore"), st.integers(0, 4), st.booleans()),
    st.tuples(st.just("recreate log")),
    st.tuples(st.just("lose tail"), st.integers(1, 8)),
)
TRIM = st.tuples(st.just("trim"), st.integers(1, 10))


class Story:
    """Acts on a world."""

    def __init__(self, *, careful: bool = True) -> None:
        self.world = World(careful=careful)
        self._shapes = [
            wal.relation(
                16384 + table, width=2, identity="df"[table % 2], schema="_tidewire" if table == 3 else "public"
            )
            for table in TABLES
        ]
        self._xid = 700
        self._ledgers: dict[int, Ledger] = {}

    def tell(self, actions: Iterable[tuple]) -> "Story":
        for name, *arguments in actions:
            getattr(self, "_" + name.replace(" ", "_"))(*arguments)
        return self

    def _commit(self, ops: tuple) -> None:
        self._xid += 1
        made, strays = [], []
        for kind, *arguments in ops:
            if kind == "alter":
                table, width, identity = arguments
                schema = self._shapes[table].schema
                self._shapes[table] = wal.relation(16384 + table, width=width, identity=identity, schema=schema)
            elif arguments == ["stray"]:
                strays.append(wal.message("tidewire.barrier", b"stray", transactional=False).raw)
            else:
                made += self._ops(kind, arguments, len(made))
        commit_lsn = self.world.flushed + 20
        self._ledgers[len(self.world.transactions)] = self.world.ledger
        self.world.commit(
            wal.Transaction(self._xid, commit_lsn, commit_lsn + 10, self._xid * 1000, tuple(made), tuple(strays))
        )

    def _ops(self, kind: str, arguments: list, number: int) -> list[wal.Op]:
        unique = f"{self._xid}.{number}".encode()
        if kind == "truncate":
            return [wal.truncate(tuple(self._shapes[table] for table in arguments[0]))]
        if kind == "message":
            return [wal.message(arguments[0], unique)]
        if kind == "mark":
            return [wal.mark(arguments[0], unique)]
        shape = self._shapes[arguments[0]]
        if kind == "many":
            return [wal.insert(shape, unique + b"+%d" % n) for n in range(arguments[1])]
        return [ROWS[kind](shape, unique)]

    def _wal(self, size: int) -> None:
        self.world.flushed += size

    def _succeed(self, how: str, steps: int, choice: int) -> None:
        """A new capture, after the one that holds the slot lost it or died."""
        holder = self.world.slot and self.world.slot.holder
        if holder is not None and how != "wait":
            holder.die() if how == "die" else holder.lose_walsender()
        self.world.spawn()
        self._run(0, steps, choice)

    def _run(self, who: int, steps: int, choice: int) -> None:
        for number in range(steps):
            self._step(who, 1, (choice + number) % 5)
            self._deliver(who, number % 2 + (choice == 4))

    def _step(self, who: int, steps: int, choice: int) -> None:
        for _ in range(steps):
            if self.world.captures:
                self._captures(who).step(choice)

    def _deliver(self, who: int, records: int) -> None:
        if self.world.captures:
            self._captures(who).deliver(records)

    def _unplug(self, who: int) -> None:
        if self.world.captures:
            self._captures(who).lose_walsender()

    def _die(self, who: int) -> None:
        if self.world.captures:
            self._captures(who).die()

    def _captures(self, who: int):
        """Counted from the youngest."""
        return self.world.captures[-1 - who % len(self.world.captures)]

    def _all_die(self) -> None:
        for capture in self.world.captures:
            capture.die()
            capture.outbox.clear()

    def _invalidate_slot(self) -> None:
        if self.world.slot is not None:
            self.world.slot.holder, self.world.slot.lost = None, True

    def _drop_slot(self) -> None:
        if self.world.slot is not None and self.world.slot.holder is None:
            self.world.slot = None

    def _restore(self, transactions: int, other_system: bool) -> None:
        """The database as it was some commits ago, promoted; slots are not restored. Old captures may still write."""
        world = self.world
        for capture in world.captures:
            capture.lose_walsender()
        kept = world.transactions[: max(0, len(world.transactions) - transactions)]
        world.ledger = self._ledgers.get(len(kept), world.ledger)
        system, _ = world.cluster
        fresh = max(number for _, number in world.clusters) + 1
        world.cluster = (system + other_system, fresh)
        world.clusters[world.cluster] = list(kept)
        world.flushed, world.slot = (kept[-1].end_lsn if kept else 100) + 8, None

    def _recreate_log(self) -> None:
        self._all_die()
        self.world.log, self.world.low = [], 0

    def _lose_tail(self, records: int) -> None:
        self._all_die()
        del self.world.log[max(self.world.low, len(self.world.log) - records) :]

    def _trim(self, records: int) -> None:
        """Never the last record in force."""
        world, reader, last = self.world, ChangesReader(), 0
        for offset in range(world.low, len(world.log)):
            if _counts(reader, world.log[offset]):
                last = offset
        world.low = min(world.low + records, max(world.low, last))


def _counts(reader: ChangesReader, value: bytes) -> bool:
    before = reader.fencing.in_force
    for _ in reader.feed(value):
        pass
    record = ChangesRecord.FromString(value)
    now = reader.fencing.in_force
    return (record.epoch, record.writer) == (now.epoch, now.writer) and (before != now or not record.HasField("fence"))


class Run(Struct):
    """What a reader got within one history."""

    began: HistoryBegan | None
    events: list[tuple]


def read(values: Iterable[bytes], is_read: Callable[[int], bool] | None = None) -> list[Run]:
    reader, runs, shown = ChangesReader(is_read), [Run(None, [])], {}
    done = 0
    for value in values:
        for event in reader.feed(value):
            match event:
                case HistoryBegan():
                    runs.append(Run(event, []))
                    shown, done = {}, 0
                case SchemaSeen():
                    assert shown.get(event.relation.oid) != event.relation
                    shown[event.relation.oid] = event.relation
                case Idle():
                    assert event.lsn >= done
                case _:
                    runs[-1].events.append(_told(event, shown))
                    done = event.end_lsn if isinstance(event, Committed) else done
    return runs


def _told(event: ChangeEvent, shown: dict) -> tuple:
    match event:
        case RowChanged(relation=relation):
            assert shown[relation.oid] == relation
            place = (event.commit_lsn, event.seq, event.ordinal)
            return (*place, "row", relation, event.operation, event.before, event.after)
        case Truncated(relation=relation):
            assert shown[relation.oid] == relation
            return (event.commit_lsn, event.seq, event.ordinal, "truncate", relation)
        case BarrierPassed():
            return (event.commit_lsn, "barrier", event.barrier_id)
        case Registered():
            return (event.commit_lsn, "registration", event.description)
        case TopicDefined():
            return (event.commit_lsn, "topics", event.content)
        case RowsTruncated():
            return (event.commit_lsn, "truncated", event.content)
        case ActorNamed():
            return (event.commit_lsn, "actor", event.content)
        case SchemaChanged():
            return (event.commit_lsn, "ddl", event.description)
        case Committed():
            return (event.commit_lsn, event.next_seq, "committed", event.end_lsn, event.xid)
    raise AssertionError(event)
