"""A made-up WAL: transactions with the bytes that a walsender would send, and what must come out of the log."""

from collections.abc import Iterator
from struct import pack

from msgspec import Struct

from proto.pgoutput.decoder import POSTGRES_EPOCH_US
from proto.pgoutput.messages import ABSENT, Column, Relation

TEXT_OID, ENUM_OID = 25, 90001
TYPE = b"Y" + pack("!I", ENUM_OID) + b"public\0mood\0"
IDENTITIES = "dfn"
MARKS = Relation(
    17000,
    "_tidewire",
    "marks",
    "d",
    (Column("id", 20, -1, True), Column("kind", TEXT_OID, -1, False), Column("content", TEXT_OID, -1, False)),
)


class Op(Struct, frozen=True):
    """One message of a transaction: its bytes, the relations it needs, and the events that it must become."""

    raw: bytes
    relations: tuple[Relation, ...]
    events: tuple[tuple, ...]  # what stands between (seq, ordinal) and the end of the event
    counts: bool = True


class Transaction(Struct, frozen=True):
    xid: int
    commit_lsn: int
    end_lsn: int
    time_us: int
    ops: tuple[Op, ...]
    # Non-transactional messages that stand in front of it.
    strays: tuple[bytes, ...] = ()

    @property
    def begin(self) -> bytes:
        return b"B" + pack("!qqI", self.commit_lsn, self.time_us - POSTGRES_EPOCH_US, self.xid)

    @property
    def commit(self) -> bytes:
        return b"C" + pack("!Bqqq", 0, self.commit_lsn, self.end_lsn, self.time_us - POSTGRES_EPOCH_US)


def relation(oid: int, *, width: int, identity: str, schema: str = "public") -> Relation:
    columns = tuple(
        Column(f"c{number}", ENUM_OID if number == 2 else TEXT_OID, -1, identity == "f" or number == 0)
        for number in range(width)
    )
    return Relation(oid, schema, f"t{oid}", identity, columns)


def relation_bytes(shape: Relation) -> bytes:
    head = b"R" + pack("!I", shape.oid) + f"{shape.schema}\0{shape.name}\0{shape.identity}".encode()
    columns = (
        pack("!B", column.is_identity) + column.name.encode() + b"\0" + pack("!Ii", column.type_oid, -1)
        for column in shape.columns
    )
    return head + pack("!H", len(shape.columns)) + b"".join(columns)


def tuple_bytes(row: tuple) -> bytes:
    parts = [pack("!H", len(row))]
    for value in row:
        if value is ABSENT:
            parts.append(b"u")
        else:
            parts.append(b"n" if value is None else b"t" + pack("!i", len(value)) + value)
    return b"".join(parts)


def tracked(shape: Relation) -> bool:
    return shape.identity != "n" and shape.schema != "_tidewire"


def insert(shape: Relation, value: bytes) -> Op:
    after = (value,) * len(shape.columns)
    raw = b"I" + pack("!I", shape.oid) + b"N" + tuple_bytes(after)
    return _row(shape, raw, ("row", shape, "insert", None, after))


def update(shape: Relation, value: bytes) -> Op:
    """FULL: the last value is toasted and unchanged. Key: the key changed."""
    after = (value,) * (len(shape.columns) - 1) + (None,)
    if shape.identity == "f":
        before = (b"old",) * len(shape.columns)
        sent = (*after[:-1], ABSENT)
        raw = b"U" + pack("!I", shape.oid) + b"O" + tuple_bytes(before) + b"N" + tuple_bytes(sent)
        return _row(shape, raw, ("row", shape, "update", before, (*after[:-1], b"old")))
    raw = b"U" + pack("!I", shape.oid) + b"N" + tuple_bytes(after)
    return _row(shape, raw, ("row", shape, "update", None, after))


def delete(shape: Relation, value: bytes) -> Op:
    key = (value,) + (None,) * (len(shape.columns) - 1)
    known = (value,) + ((None,) if shape.identity == "f" else (ABSENT,)) * (len(shape.columns) - 1)
    raw = b"D" + pack("!I", shape.oid) + (b"O" if shape.identity == "f" else b"K") + tuple_bytes(key)
    return _row(shape, raw, ("row", shape, "delete", known, None))


def truncate(shapes: tuple[Relation, ...]) -> Op:
    raw = b"T" + pack("!IB", len(shapes), 1) + b"".join(pack("!I", shape.oid) for shape in shapes)
    return Op(raw, shapes, tuple(("truncate", shape) for shape in shapes if tracked(shape)))


def message(prefix: str, content: bytes, *, transactional: bool = True) -> Op:
    """What any login may emit: nothing that counts, but its word for who writes."""
    raw = b"M" + pack("!Bq", transactional, 1) + prefix.encode() + b"\0" + pack("!i", len(content)) + content
    is_actor = transactional and prefix == "tidewire.actor"
    return Op(raw, (), (("actor", content),) if is_actor else (), counts=False)


def mark(kind: str, content: bytes) -> Op:
    """A row of our own table of marks."""
    raw = b"I" + pack("!I", MARKS.oid) + b"N" + tuple_bytes((b"1", kind.encode(), content))
    known = {kind: (kind, content) for kind in ("ddl", "registration", "topics", "truncated")}
    known["barrier"] = ("barrier", content.decode())
    return Op(raw, (MARKS,), (known[kind],) if kind in known else (), counts=False)


def _row(shape: Relation, raw: bytes, event: tuple) -> Op:
    return Op(raw, (shape,), (event,) if tracked(shape) else ())


def expected(transactions: list[Transaction], lsn: int, first_seq: int) -> list[tuple]:
    """What a history that begins at `lsn` consists of, in order; each transaction closed."""
    events, seq = [], first_seq
    for transaction in transactions:
        if transaction.commit_lsn < lsn:
            continue
        ordinal, mark = 0, len(events)
        # The name of an actor waits for what it is of; alone in a transaction it is no news.
        named: list[tuple] = []
        for op in transaction.ops:
            for event in op.events:
                if event[0] == "actor":
                    named = [(transaction.commit_lsn, *event)]
                    continue
                events += named
                ordinal, named = ordinal + len(named), []
                place = (seq, ordinal) if op.counts else ()
                events.append((transaction.commit_lsn, *place, *event))
                seq, ordinal = seq + op.counts, ordinal + 1
        if len(events) > mark:
            events += named
            events.append((transaction.commit_lsn, seq, "committed", transaction.end_lsn, transaction.xid))
    return events


class Walsender:
    """Sends from an LSN on; describes a relation before its first use and whenever it became another."""

    def __init__(self, transactions: list[Transaction], lsn: int) -> None:
        self._transactions, self._lsn = transactions, lsn
        self._sent: dict[int, Relation] = {}
        self._next = 0

    def more(self) -> Iterator[bytes]:
        """What was committed since the last call."""
        while self._next < len(self._transactions):
            transaction = self._transactions[self._next]
            self._next += 1
            if transaction.commit_lsn >= self._lsn:
                yield from transaction.strays
                yield from self._messages(transaction)

    def _messages(self, transaction: Transaction) -> Iterator[bytes]:
        yield transaction.begin
        for op in transaction.ops:
            for shape in op.relations:
                if self._sent.get(shape.oid) != shape:
                    self._sent[shape.oid] = shape
                    if any(column.type_oid == ENUM_OID for column in shape.columns):
                        yield TYPE
                    yield relation_bytes(shape)
            yield op.raw
        yield transaction.commit
