"""Bytes of one pgoutput message to the message; stateless, so that it can start anywhere."""

from collections.abc import Callable
from struct import Struct as Packed
from struct import error as StructError
from struct import unpack_from

from proto.pgoutput.messages import (
    ABSENT,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Origin,
    PgOutputMessage,
    Relation,
    Row,
    Truncate,
    Type,
    Unwritable,
    Update,
    Value,
)
from proto.positions import Lsn, Xid

# PostgreSQL counts from 2000-01-01, everybody else from 1970-01-01.
POSTGRES_EPOCH_US = 946_684_800_000_000

_BEGIN = Packed("!qqI")
_COMMIT = Packed("!Bqqq")
_RELATION_ID = Packed("!I")
_COLUMN_TYPE = Packed("!Ii")
_LENGTH = Packed("!i")
_COUNT = Packed("!H")
_TRUNCATE = Packed("!IB")
_MESSAGE = Packed("!Bq")

_NULL, _UNCHANGED_TOAST, _TEXT = b"nut"
_KEY, _OLD, _NEW = b"KON"


class MalformedMessage(ValueError):
    """A message that pgoutput, protocol version 1, does not send."""


def decode(message: bytes) -> PgOutputMessage:
    try:
        decode_body = _DECODERS[message[0]]
    except IndexError:
        raise MalformedMessage("an empty pgoutput message") from None
    except KeyError:
        raise MalformedMessage(f"pgoutput message of unknown type {message[:1]!r}") from None
    try:
        return decode_body(message)
    except (StructError, IndexError, ValueError) as error:
        raise MalformedMessage(f"pgoutput message of type {message[:1]!r} is cut or damaged: {error}") from error


def _begin(message: bytes) -> Begin:
    commit_lsn, commit_time, xid = _BEGIN.unpack_from(message, 1)
    return Begin(Lsn(commit_lsn), commit_time + POSTGRES_EPOCH_US, Xid(xid))


def _commit(message: bytes) -> Commit:
    _flags, commit_lsn, end_lsn, commit_time = _COMMIT.unpack_from(message, 1)
    return Commit(Lsn(commit_lsn), Lsn(end_lsn), commit_time + POSTGRES_EPOCH_US)


def _origin(message: bytes) -> Origin:
    (commit_lsn,) = unpack_from("!q", message, 1)
    name, _ = _string(message, 9)
    return Origin(Lsn(commit_lsn), name)


def _relation(message: bytes) -> Relation:
    (oid,) = _RELATION_ID.unpack_from(message, 1)
    schema, at = _string(message, 5)
    name, at = _string(message, at)
    identity = chr(message[at])
    (count,) = _COUNT.unpack_from(message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = _string(message, at + 1)
        type_oid, type_modifier = _COLUMN_TYPE.unpack_from(message, at)
        at += _COLUMN_TYPE.size
        columns.append(Column(column, type_oid, type_modifier, bool(flags & 1)))
    # An empty schema name stands for pg_catalog.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _type(message: bytes) -> Type:
    (oid,) = _RELATION_ID.unpack_from(message, 1)
    schema, at = _string(message, 5)
    name, _ = _string(message, at)
    return Type(oid, schema or "pg_catalog", name)


def _insert(message: bytes) -> Insert:
    (relation,) = _RELATION_ID.unpack_from(message, 1)
    _expect(message, 5, _NEW)
    after, _ = _row(message, 6)
    return Insert(relation, after)


def _update(message: bytes) -> Update:
    (relation,) = _RELATION_ID.unpack_from(message, 1)
    before: Row | None = None
    kind, at = message[5], 6
    if kind in (_KEY, _OLD):
        before, at = _row(message, 6)
        at += 1
    _expect(message, at - 1, _NEW)
    after, _ = _row(message, at)
    return Update(relation, before, kind == _KEY, after)


def _delete(message: bytes) -> Delete:
    (relation,) = _RELATION_ID.unpack_from(message, 1)
    kind = message[5]
    if kind not in (_KEY, _OLD):
        raise ValueError(f"expected an old row, found {chr(kind)!r}")
    before, _ = _row(message, 6)
    return Delete(relation, before, kind == _KEY)


def _truncate(message: bytes) -> Truncate:
    count, options = _TRUNCATE.unpack_from(message, 1)
    relations = unpack_from(f"!{count}I", message, 1 + _TRUNCATE.size)
    return Truncate(relations, bool(options & 1), bool(options & 2))


def _logical_message(message: bytes) -> LogicalMessage:
    flags, lsn = _MESSAGE.unpack_from(message, 1)
    prefix, at = _string(message, 1 + _MESSAGE.size)
    (length,) = _LENGTH.unpack_from(message, at)
    at += _LENGTH.size
    content = message[at : at + length]
    if len(content) != length:
        raise ValueError(f"content has {len(content)} of {length} bytes")
    return LogicalMessage(bool(flags & 1), Lsn(lsn), prefix, content)


def _unwritable(message: bytes) -> Unwritable:
    (relation,) = _RELATION_ID.unpack_from(message, 1)
    return Unwritable(relation, chr(message[5]), message[6:].decode())


def encode_unwritable(unwritable: Unwritable) -> bytes:
    return b"!" + _RELATION_ID.pack(unwritable.relation) + unwritable.operation.encode() + unwritable.reason.encode()


def encode_truncate(truncate: Truncate) -> bytes:
    options = truncate.cascade | (truncate.restart_identity << 1)
    count = len(truncate.relations)
    return b"T" + _TRUNCATE.pack(count, options) + b"".join(map(_RELATION_ID.pack, truncate.relations))


def encode_logical_message(message: LogicalMessage) -> bytes:
    head = b"M" + _MESSAGE.pack(message.transactional, message.lsn)
    prefix = message.prefix.encode("utf-8", "surrogateescape") + b"\0"
    return head + prefix + _LENGTH.pack(len(message.content)) + message.content


def _row(message: bytes, at: int) -> tuple[Row, int]:
    (count,) = _COUNT.unpack_from(message, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind == _TEXT:
            (length,) = _LENGTH.unpack_from(message, at)
            at += 4
            value = message[at : at + length]
            if len(value) != length:
                raise ValueError(f"a value has {len(value)} of {length} bytes")
            values.append(value)
            at += length
        elif kind == _NULL:
            values.append(None)
        elif kind == _UNCHANGED_TOAST:
            values.append(ABSENT)
        else:
            raise ValueError(f"a value of unknown kind {chr(kind)!r}")
    return tuple(values), at


def _string(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    # A database in SQL_ASCII may have names that are not UTF-8; they must survive unharmed.
    return message[at:end].decode("utf-8", "surrogateescape"), end + 1


def _expect(message: bytes, at: int, kind: int) -> None:
    if message[at] != kind:
        raise ValueError(f"expected {chr(kind)!r} at byte {at}, found {chr(message[at])!r}")


_DECODERS: dict[int, Callable[[bytes], PgOutputMessage]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
    ord("!"): _unwritable,
}
