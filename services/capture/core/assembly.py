"""Assembles the walsender's messages into segments of the log, and counts seq and ordinal."""

from struct import Struct as Packed

from msgspec import Struct

from proto.pgoutput.decoder import decode, encode_logical_message, encode_truncate, encode_unwritable
from proto.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    Truncate,
    Unwritable,
    Update,
)
from proto.positions import Lsn, Seq
from proto.streams.changes import BARRIER_PREFIX, DDL_PREFIX, REGISTRATION_PREFIX
from proto.streams.topic_marks import ACTOR_PREFIX, TOPICS_PREFIX, TRUNCATED_PREFIX
from proto.tidewire.v1.changes_pb2 import Segment

OWN_SCHEMA, MARKS = "_tidewire", "marks"
# The kinds of rows in our table of marks, and the messages that they become in the log.
PREFIXES = {
    b"ddl": DDL_PREFIX,
    b"barrier": BARRIER_PREFIX,
    b"registration": REGISTRATION_PREFIX,
    b"topics": TOPICS_PREFIX,
    b"truncated": TRUNCATED_PREFIX,
}
# An actor's name that is longer is not taken over.
MOST_ACTOR_BYTES = 256

_LENGTH = Packed("!I")
_ROWS = frozenset(b"IUD")
_BEGIN, _COMMIT, _RELATION, _TYPE, _TRUNCATE, _INSERT, _MESSAGE = b"BCRYTIM"
# Of a logical message: that it is transactional, its LSN, and the prefix that names an actor.
_PREFIX_AT = 10
_ACTOR = ACTOR_PREFIX.encode() + b"\0"


class Position(Struct, frozen=True):
    """Behind a whole commit: all commits before `lsn` are in the log, the next change has `seq`."""

    lsn: Lsn
    seq: Seq


class Cut(Struct, frozen=True):
    """A segment ready to be written, where the log stood before it, and where it stands after it."""

    segment: Segment
    before: Position
    after: Position
    changes: int
    commits: int


class KnownRelation(Struct, frozen=True):
    """A relation as the walsender described it last, with the types that it uses."""

    raw: tuple[bytes, ...]
    tracked: bool
    # Of our own table of marks: where its rows have their kind and their content.
    mark_columns: tuple[int, int] | None = None


class Assembly:
    """Takes the messages of a replication stream in order.

    What it counts depends on the WAL and on the position it starts from, on nothing else: a second capture that starts
    anywhere earlier writes the same seq and ordinal for the same change.
    """

    def __init__(self, start: Position, *, row_limit_bytes: int) -> None:
        self.committed = start
        self.size_bytes = 0
        self._row_limit_bytes = row_limit_bytes
        self._seq: int = start.seq
        self._ordinal = 0
        self._known_relations: dict[bytes, KnownRelation] = {}
        self._types: dict[int, bytes] = {}
        # The open transaction: its Begin message, whether that was written, whether the transaction is skipped.
        self._begin: bytes | None = None
        self._begin_written = False
        self._skipping = False
        # The actor that the open transaction named and that is not written yet.
        self._actor: bytes | None = None
        self._start_segment()

    def add(self, message: bytes) -> None:
        """Add the next message; of an application's own (M) only the actor counts: any login may choose any prefix."""
        kind = message[0]
        if kind in _ROWS:
            if self._skipping:
                return
            if message[1:5] in self._at_hand or self._bring(message[1:5]):
                if len(message) > self._row_limit_bytes:
                    message = self._within_limit(message)
                self._append(message)
                self._seq += 1
                self._ordinal += 1
            elif kind == _INSERT:
                self._add_mark(message)
        elif kind == _BEGIN:
            self._open(message)
        elif kind == _COMMIT:
            self._close(message)
        elif kind == _RELATION:
            self._learn_relation(message)
        elif kind == _TYPE:
            self._types[int.from_bytes(message[1:5])] = message
        elif kind == _TRUNCATE and not self._skipping:
            self._add_truncate(message)
        elif kind == _MESSAGE and message.startswith(_ACTOR, _PREFIX_AT) and not self._skipping:
            self._name_actor(message)

    def cut(self) -> Cut | None:
        """What has been added since the last cut; None if there is nothing to write."""
        if not self._entries:
            return None
        segment = Segment(
            first_seq=self._first_seq,
            open_begin=self._first_begin,
            first_ordinal=self._first_ordinal,
            relations=self._relations,
            entries=b"".join(self._entries),
        )
        cut = Cut(segment, self._first_position, self.committed, self._seq - self._first_seq, self._commits)
        self._start_segment()
        return cut

    @property
    def in_transaction(self) -> bool:
        """Whether the stream stands inside a transaction."""
        return self._begin is not None

    def idle_until(self, lsn: Lsn) -> Position:
        """PostgreSQL has nothing more to tell before `lsn`; only between transactions and behind a cut."""
        assert not self.in_transaction and not self._entries
        self.committed = self._first_position = Position(max(lsn, self.committed.lsn), Seq(self._seq))
        return self.committed

    def _start_segment(self) -> None:
        self._entries: list[bytes] = []
        self._relations: list[bytes] = []
        # Relations that are tracked and described in the segment; relations that its head describes.
        self._at_hand: set[bytes] = set()
        self._at_head: set[bytes] = set()
        self._first_seq = self._seq
        self._first_begin = self._begin if self._begin_written else None
        self._first_ordinal = self._ordinal
        self._first_position = self.committed
        self._commits = 0
        self.size_bytes = 0

    def _append(self, message: bytes) -> None:
        if not self._begin_written:
            self._begin_written = True
            assert self._begin is not None
            self._entries += (_LENGTH.pack(len(self._begin)), self._begin)
        if self._actor is not None:
            actor, self._actor = self._actor, None
            self._ordinal += 1
            self._append(actor)
        self._entries += (_LENGTH.pack(len(message)), message)
        self.size_bytes += len(message) + 4

    def _open(self, message: bytes) -> None:
        begin = decode(message)
        assert isinstance(begin, Begin)
        self._begin, self._begin_written, self._ordinal, self._actor = message, False, 0, None
        self._skipping = begin.commit_lsn < self.committed.lsn

    def _close(self, message: bytes) -> None:
        commit = decode(message)
        assert isinstance(commit, Commit)
        # A transaction without tracked changes is not written; the next heartbeat covers its LSN.
        if self._begin_written:
            self._append(message)
            self._commits += 1
            self.committed = Position(commit.end_lsn, Seq(self._seq))
        self._begin, self._begin_written, self._skipping, self._actor = None, False, False, None

    def _learn_relation(self, message: bytes) -> None:
        relation = decode(message)
        assert isinstance(relation, Relation)
        types = tuple(self._types[c.type_oid] for c in relation.columns if c.type_oid in self._types)
        tracked = relation.is_tracked and relation.schema != OWN_SCHEMA
        key = message[1:5]
        self._known_relations[key] = KnownRelation((*types, message), tracked, _mark_columns(relation))
        if tracked and key in self._at_head:
            # The relation changed within the segment: its new description goes between the entries.
            for raw in (*types, message):
                self._append(raw)
            self._at_hand.add(key)
        elif not tracked:
            self._at_hand.discard(key)

    def _bring(self, key: bytes) -> bool:
        """Whether the relation is tracked; if so, describes it at the head of the segment."""
        known = self._known_relations[key]
        if known.tracked:
            self._at_head.add(key)
            self._relations += known.raw
            self.size_bytes += sum(map(len, known.raw))
            self._at_hand.add(key)
        return known.tracked

    def _add_truncate(self, message: bytes) -> None:
        truncate = decode(message)
        assert isinstance(truncate, Truncate)
        tracked = []
        for oid in truncate.relations:
            key = oid.to_bytes(4)
            if key in self._at_hand or self._bring(key):
                tracked.append(oid)
        if tracked:
            self._append(encode_truncate(Truncate(tuple(tracked), truncate.cascade, truncate.restart_identity)))
            self._seq += len(tracked)
            self._ordinal += len(tracked)

    def _add_mark(self, message: bytes) -> None:
        """Turn a row of our table of marks into a message of the log; kinds of a newer version are left out."""
        columns = self._known_relations[message[1:5]].mark_columns
        if columns is None:
            return
        insert, begin = decode(message), decode(self._begin or b"")
        assert isinstance(insert, Insert) and isinstance(begin, Begin)
        kind, content = (insert.after[column] for column in columns)
        if isinstance(kind, bytes) and isinstance(content, bytes) and kind in PREFIXES:
            self._append(encode_logical_message(LogicalMessage(True, begin.commit_lsn, PREFIXES[kind], content)))
            self._ordinal += 1

    def _name_actor(self, message: bytes) -> None:
        """Hold the name until something else of the transaction is written: alone it is no news."""
        named = decode(message)
        assert isinstance(named, LogicalMessage)
        if named.transactional and self._begin is not None and len(named.content) <= MOST_ACTOR_BYTES:
            self._actor = encode_logical_message(named)

    def _within_limit(self, message: bytes) -> bytes:
        change = decode(message)
        assert isinstance(change, Insert | Update | Delete)
        images = [getattr(change, "before", None), getattr(change, "after", None)]
        largest = max(sum(len(value) for value in image if isinstance(value, bytes)) for image in images if image)
        if largest <= self._row_limit_bytes:
            return message
        reason = f"a row of {largest} bytes, over TIDEWIRE_CAPTURE_ROW_LIMIT_BYTES ({self._row_limit_bytes})"
        return encode_unwritable(Unwritable(change.relation, chr(message[0]), reason))


def _mark_columns(relation: Relation) -> tuple[int, int] | None:
    if (relation.schema, relation.name) != (OWN_SCHEMA, MARKS):
        return None
    names = [column.name for column in relation.columns]
    return (names.index("kind"), names.index("content")) if {"kind", "content"} <= set(names) else None
