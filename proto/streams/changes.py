"""The reader of `changes`: records in, each committed change out once, in commit order, without a gap."""

from collections.abc import Callable, Iterator
from struct import Struct as Packed
from typing import TypeAlias

from msgspec import Struct

from proto.pgoutput.decoder import decode
from proto.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    PgOutputMessage,
    Relation,
    Row,
    Truncate,
    Type,
    Unwritable,
    Update,
)
from proto.positions import Lsn, Seq, Xid
from proto.streams.fencing import Fencing, Writer
from proto.streams.images import images
from proto.streams.topic_marks import TOPIC_MARKS, TopicMark
from proto.streams.unread_tables import ROW_TYPES, UnreadTables
from proto.tidewire.v1.changes_pb2 import ChangesRecord, Fragment, HistoryBegin, Segment

DDL_PREFIX = "tidewire.ddl"
BARRIER_PREFIX = "tidewire.barrier"
REGISTRATION_PREFIX = "tidewire.registration"
KNOWN_PREFIXES = frozenset({DDL_PREFIX, BARRIER_PREFIX, REGISTRATION_PREFIX}) | TOPIC_MARKS.keys()
OPERATIONS = {"I": "insert", "U": "update", "D": "delete"}

_LENGTH = Packed("!I")


class RowChanged(Struct, frozen=True, kw_only=True, tag=True):
    """One row: `before` and `after` in the order of `relation.columns`, as far as the table's identity gives them."""

    seq: Seq
    commit_lsn: Lsn
    ordinal: int
    xid: Xid
    commit_time_us: int
    relation: Relation
    operation: str  # insert, update, delete
    before: Row | None
    after: Row | None


class Truncated(Struct, frozen=True, kw_only=True, tag=True):
    seq: Seq
    commit_lsn: Lsn
    ordinal: int
    xid: Xid
    commit_time_us: int
    relation: Relation
    cascade: bool
    restart_identity: bool


class ChangeUnwritable(Struct, frozen=True, kw_only=True, tag=True):
    """A change that was committed and is not in the log, and why; its table must be taken anew from the database."""

    seq: Seq
    commit_lsn: Lsn
    ordinal: int
    xid: Xid
    commit_time_us: int
    relation: Relation
    operation: str  # insert, update, delete
    reason: str


class SchemaSeen(Struct, frozen=True, kw_only=True, tag=True):
    """The shape of a table from here on; comes before its first row and whenever the shape is another."""

    commit_lsn: Lsn
    relation: Relation


class SchemaChanged(Struct, frozen=True, kw_only=True, tag=True):
    """A DDL mark: `description` is the JSON that the event trigger wrote; what cannot be read stands for everything."""

    commit_lsn: Lsn
    ordinal: int
    xid: Xid
    description: bytes


class Registered(Struct, frozen=True, kw_only=True, tag=True):
    """A registration of the NOTIFY door: the JSON that pgr.subscribe or pgr.unsubscribe wrote."""

    commit_lsn: Lsn
    description: bytes


class BarrierPassed(Struct, frozen=True, kw_only=True, tag=True):
    commit_lsn: Lsn
    barrier_id: str


class Committed(Struct, frozen=True, kw_only=True, tag=True):
    """Everything since the last Committed was one transaction, and it is whole."""

    commit_lsn: Lsn
    end_lsn: Lsn
    xid: Xid
    commit_time_us: int
    next_seq: Seq


class Idle(Struct, frozen=True, kw_only=True, tag=True):
    """All commits before `lsn` have come out."""

    lsn: Lsn
    next_seq: Seq
    written_us: int


class HistoryBegan(Struct, frozen=True, kw_only=True, tag=True):
    """Continuity ends here: drop the open transaction and take everything anew from the database at or after `lsn`."""

    history: int
    because: str
    lsn: Lsn
    first_seq: Seq
    system_identifier: int
    timeline: int
    database: str


TableEvent: TypeAlias = RowChanged | Truncated | ChangeUnwritable | SchemaSeen | SchemaChanged
ChangeEvent: TypeAlias = TableEvent | Registered | TopicMark | BarrierPassed | Committed | Idle | HistoryBegan


class GapInChanges(Exception):
    """The log misses changes that it should have: the reader cannot go on and must not guess."""

    def __init__(self, expected: Seq, found: Seq) -> None:
        super().__init__(
            f"the log goes on at seq {found}, expected {expected}: records were removed from the middle of `changes`; "
            "take the tables anew from the database"
        )
        self.expected = expected
        self.found = found


class OpenTransaction(Struct, frozen=True):
    begin: Begin
    # How many entries of it have come out; a writer that begins it again repeats them.
    delivered: int


class ChangesReader:
    """Feed it the values of the topic's messages in order; it yields each change once.

    It may begin at any message. What it yields before the first HistoryBegan belongs to a history that began earlier.
    `is_read` says of a table's oid whether anybody wants its rows: of one that nobody reads the first change in each
    transaction comes out, and the others are only counted, which takes a tenth of the time.
    """

    def __init__(self, is_read: Callable[[int], bool] | None = None) -> None:
        self._unread = UnreadTables(is_read)
        self.fencing = Fencing()
        self.history = 0
        # Behind the last whole commit: all commits before this LSN have come out, the next change has this seq.
        self.committed_lsn = Lsn(0)
        self.committed_seq = Seq(0)
        self._next_seq: Seq | None = None
        self._open: OpenTransaction | None = None
        self._relations: dict[int, Relation] = {}
        self._shown: dict[int, Relation] = {}
        self._decoded_relations: dict[bytes, Relation | Type] = {}
        self._pieces: list[bytes] = []
        self._pieces_of: Writer | None = None

    def feed(self, value: bytes) -> Iterator[ChangeEvent]:
        record = ChangesRecord.FromString(value)
        writer = Writer(record.epoch, record.writer)
        body = record.WhichOneof("body")
        if not (self.fencing.fence(writer) if body == "fence" else self.fencing.admits(writer)):
            return
        if body != "fragment" or writer != self._pieces_of:
            self._pieces, self._pieces_of = [], writer
        if body != "fence" and self.history not in (0, record.history):
            # A reader that began behind the fence, on records that it could not know to be void.
            yield from self._begin_history(record)
        if self._next_seq is None:
            self._begin_at(record)
        match body:
            case "fence":
                yield from self._fence(record)
            case "segment":
                yield from self._segment(record.segment)
            case "fragment":
                yield from self._fragment(record.fragment)
            case "heartbeat":
                yield from self._heartbeat(record)

    def _begin_at(self, record: ChangesRecord) -> None:
        if record.WhichOneof("body") == "fence":
            return
        self.history = record.history
        self.committed_lsn = Lsn(record.committed_lsn)
        self.committed_seq = Seq(record.committed_seq)
        if record.WhichOneof("body") == "segment":
            self._next_seq = Seq(record.segment.first_seq)
        elif record.WhichOneof("body") == "heartbeat":
            self._next_seq = self.committed_seq

    def _fence(self, record: ChangesRecord) -> Iterator[ChangeEvent]:
        # Two captures that took over at once may both begin the same history, at different places: the later counts.
        if record.fence.begins_history or self.history not in (0, record.history):
            yield from self._begin_history(record)
        self.history = record.history

    def _begin_history(self, record: ChangesRecord) -> Iterator[HistoryBegan]:
        fence = record.fence
        self.history = record.history
        self._open = None
        self._unread.forget()
        self.committed_lsn, self.committed_seq = Lsn(record.committed_lsn), Seq(record.committed_seq)
        # Only the first fence of a history knows its seq; behind another one the next segment tells.
        self._next_seq = Seq(fence.history_seq) if fence.begins_history else None
        self._shown = {}
        yield HistoryBegan(
            history=record.history,
            because=HistoryBegin.Name(fence.began_because).removeprefix("HISTORY_BEGIN_").lower(),
            lsn=self.committed_lsn,
            first_seq=self.committed_seq,
            system_identifier=record.system_identifier,
            timeline=record.timeline,
            database=fence.database,
        )

    def _heartbeat(self, record: ChangesRecord) -> Iterator[ChangeEvent]:
        next_seq = Seq(record.committed_seq)
        if self._next_seq is not None and next_seq > self._next_seq:
            raise GapInChanges(self._next_seq, next_seq)
        if record.heartbeat.lsn >= self.committed_lsn:
            self.committed_lsn = Lsn(record.heartbeat.lsn)
            yield Idle(lsn=self.committed_lsn, next_seq=next_seq, written_us=record.heartbeat.written_us)

    def _fragment(self, fragment: Fragment) -> Iterator[ChangeEvent]:
        if fragment.index == 0:
            self._pieces = []
        if fragment.index != len(self._pieces):
            return  # the reader began inside a segment: what is cut off is before its beginning
        self._pieces.append(fragment.piece)
        if len(self._pieces) == fragment.count:
            segment = Segment.FromString(b"".join(self._pieces))
            self._pieces = []
            yield from self._segment(segment)

    def _segment(self, segment: Segment) -> Iterator[ChangeEvent]:
        if self._next_seq is None:
            self._next_seq = Seq(segment.first_seq)
        elif segment.first_seq > self._next_seq:
            raise GapInChanges(self._next_seq, Seq(segment.first_seq))
        for raw in segment.relations:
            self._learn(self._decoded_relation(raw))
        begin = decode(segment.open_begin) if segment.open_begin else None
        assert begin is None or isinstance(begin, Begin)
        yield from self._entries(segment.entries, begin, segment.first_ordinal, Seq(segment.first_seq))

    def _entries(self, entries: bytes, begin: Begin | None, ordinal: int, seq: Seq) -> Iterator[ChangeEvent]:
        at, end = 0, len(entries)
        while at < end:
            (length,) = _LENGTH.unpack_from(entries, at)
            if entries[at + 4] in ROW_TYPES and self._unread.passes_over(begin, entries, at + 5):
                at, seq, ordinal = at + 4 + length, self._count(seq), ordinal + 1
                continue
            at += 4 + length
            raw = entries[at - length : at]
            if raw[0] in b"RY":
                self._learn(self._decoded_relation(raw))
                continue
            message = decode(raw)
            if isinstance(message, Begin):
                begin, ordinal = message, 0
                continue
            assert begin is not None
            if isinstance(message, Commit):
                yield from self._commit(begin, message, seq)
                continue
            if isinstance(message, LogicalMessage) and message.prefix not in KNOWN_PREFIXES:
                ordinal += 1  # of a newer writer; it has its place, and tells us nothing
                continue
            for event in self._changes(begin, message, ordinal, seq):
                if self._is_new(begin, ordinal):
                    yield from self._schema_of(event)
                    yield event
                    self._open = OpenTransaction(begin, ordinal + 1)
                if isinstance(event, RowChanged | Truncated | ChangeUnwritable):
                    seq = self._count(seq)
                ordinal += 1

    def _count(self, seq: Seq) -> Seq:
        seq = Seq(seq + 1)
        if self._next_seq is None or seq > self._next_seq:
            self._next_seq = seq
        return seq

    def _is_new(self, begin: Begin, ordinal: int) -> bool:
        if begin.commit_lsn < self.committed_lsn:
            return False
        return self._open is None or self._open.begin != begin or ordinal >= self._open.delivered

    def _commit(self, begin: Begin, commit: Commit, seq: Seq) -> Iterator[ChangeEvent]:
        if begin.commit_lsn < self.committed_lsn:
            return
        self._open = None
        self.committed_lsn, self.committed_seq = commit.end_lsn, seq
        yield Committed(
            commit_lsn=commit.commit_lsn,
            end_lsn=commit.end_lsn,
            xid=begin.xid,
            commit_time_us=begin.commit_time_us,
            next_seq=seq,
        )

    def _changes(self, begin: Begin, message: PgOutputMessage, ordinal: int, seq: Seq) -> Iterator[ChangeEvent]:
        """The events of one entry; a truncate of several tables is several."""
        lsn, xid, time = begin.commit_lsn, begin.xid, begin.commit_time_us
        match message:
            case Insert() | Update() | Delete():
                relation = self._relations[message.relation]
                operation, before, after = images(relation, message)
                yield RowChanged(
                    seq=seq,
                    commit_lsn=lsn,
                    ordinal=ordinal,
                    xid=xid,
                    commit_time_us=time,
                    relation=relation,
                    operation=operation,
                    before=before,
                    after=after,
                )
            case LogicalMessage(prefix=prefix, content=content):
                if prefix == BARRIER_PREFIX:
                    yield BarrierPassed(commit_lsn=lsn, barrier_id=content.decode("utf-8", "surrogateescape"))
                elif prefix in TOPIC_MARKS:
                    yield TOPIC_MARKS[prefix](commit_lsn=lsn, ordinal=ordinal, content=content)
                elif prefix == REGISTRATION_PREFIX:
                    yield Registered(commit_lsn=lsn, description=content)
                else:
                    yield SchemaChanged(commit_lsn=lsn, ordinal=ordinal, xid=xid, description=content)
            case Truncate():
                for offset, oid in enumerate(message.relations):
                    yield Truncated(
                        seq=Seq(seq + offset),
                        commit_lsn=lsn,
                        ordinal=ordinal + offset,
                        xid=xid,
                        commit_time_us=time,
                        relation=self._relations[oid],
                        cascade=message.cascade,
                        restart_identity=message.restart_identity,
                    )
            case Unwritable():
                yield ChangeUnwritable(
                    seq=seq,
                    commit_lsn=lsn,
                    ordinal=ordinal,
                    xid=xid,
                    commit_time_us=time,
                    relation=self._relations[message.relation],
                    operation=OPERATIONS[message.operation],
                    reason=message.reason,
                )
            case _:
                raise AssertionError(f"{type(message).__name__} does not stand in a segment")

    def _schema_of(self, event: ChangeEvent) -> Iterator[SchemaSeen]:
        if isinstance(event, RowChanged | Truncated | ChangeUnwritable):
            relation = event.relation
            if self._shown.get(relation.oid) is not relation and self._shown.get(relation.oid) != relation:
                yield SchemaSeen(commit_lsn=event.commit_lsn, relation=relation)
            self._shown[relation.oid] = relation

    def _decoded_relation(self, raw: bytes) -> Relation | Type:
        known = self._decoded_relations.get(raw)
        if known is None:
            decoded = decode(raw)
            assert isinstance(decoded, Relation | Type)
            known = self._decoded_relations[raw] = decoded
        return known

    def _learn(self, shape: Relation | Type) -> None:
        if isinstance(shape, Relation):
            self._relations[shape.oid] = shape
