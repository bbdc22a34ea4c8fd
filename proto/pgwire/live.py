"""The live messages F0–F7: how a client subscribes inside the PostgreSQL protocol, and what it then receives."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from struct import Struct as Packed
from typing import Final, TypeAlias
from uuid import UUID

from msgspec import Struct

from proto.pgwire.cursor import Cursor, utf8
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, encode_frame
from proto.positions import Lsn, format_lsn
from proto.rows import ResultRow, encode_row

SUBSCRIBE, UNSUBSCRIBE, DATA, ERROR, ACK, PAUSE, RESUME, PARTIAL = range(0xF0, 0xF8)
FRONTEND_TYPES: Final = frozenset({SUBSCRIBE, UNSUBSCRIBE, PAUSE, RESUME})
BACKEND_TYPES: Final = frozenset({DATA, ERROR, ACK, PARTIAL})

# Stands for "no subscription yet" in an error.
NO_SUBSCRIPTION: Final = UUID(int=0)
PARAMETER_STATUS: Final = ord("S")
ID_BYTES: Final = 16

# A message that lacks only its subscription: the bytes before the id and those after it. Subscribers of one query share
# it, and each costs no more than putting its id between the two.
Open: TypeAlias = tuple[bytes, bytes]

_INT32 = Packed("!i")
_INT16 = Packed("!h")
_UINT16 = Packed("!H")
_FLOAT64 = Packed("!d")
_PARTIAL_UPDATE = 4


class Update(IntEnum):
    """What the rows of a SubscriptionData are."""

    FULL = 0
    INSERT = 1
    UPDATE = 2
    DELETE = 3


class Selective(Struct, frozen=True, kw_only=True):
    """The optional tail of Subscribe: this subscription's own rules for partial rows; None is the server's rule."""

    enabled: bool | None = None
    min_changed_columns: int | None = None
    max_changed_columns_ratio: float | None = None


class Subscribe(Struct, frozen=True, tag=True):
    query: str
    parameters: tuple[bytes | None, ...] = ()
    filter: str | None = None
    selective: Selective | None = None


class Unsubscribe(Struct, frozen=True, tag=True):
    subscription: UUID


class Pause(Struct, frozen=True, tag=True):
    subscription: UUID


class Resume(Struct, frozen=True, tag=True):
    subscription: UUID


class Data(Struct, frozen=True, tag=True):
    subscription: UUID
    update: Update
    rows: tuple[ResultRow, ...]


class Refused(Struct, frozen=True, tag=True):
    """SubscriptionError."""

    subscription: UUID
    message: str


class Ack(Struct, frozen=True, tag=True):
    subscription: UUID
    tables: int
    # The positions of the result's key columns, for those who asked for them; None: not said.
    key: tuple[int, ...] | None = None


class PartialRow(Struct, frozen=True):
    """The changed values of a row, and its key's: by position."""

    columns: int
    values: dict[int, bytes | None]


class PartialData(Struct, frozen=True, tag=True):
    subscription: UUID
    rows: tuple[PartialRow, ...]


FromClient: TypeAlias = Subscribe | Unsubscribe | Pause | Resume
FromGateway: TypeAlias = Data | Refused | Ack | PartialData


def encode(message: FromClient | FromGateway) -> bytes:
    match message:
        case Subscribe():
            return encode_frame(SUBSCRIBE, _subscribe_body(message))
        case Unsubscribe(subscription=subscription):
            return encode_frame(UNSUBSCRIBE, subscription.bytes)
        case Pause(subscription=subscription):
            return encode_frame(PAUSE, subscription.bytes)
        case Resume(subscription=subscription):
            return encode_frame(RESUME, subscription.bytes)
        case Data(subscription=subscription, update=update, rows=rows):
            before, after = open_data(update, len(rows), b"".join(map(encode_row, rows)))
            return before + subscription.bytes + after
        case Refused(subscription=subscription, message=text):
            return encode_error(subscription.bytes, text)
        case Ack(subscription=subscription, tables=tables, key=key):
            return encode_ack(subscription.bytes, tables, key)
        case PartialData(subscription=subscription, rows=rows):
            encoded = b"".join(encode_partial_row(row.columns, row.values) for row in rows)
            before, after = open_partial(len(rows), encoded)
            return before + subscription.bytes + after


def encode_error(subscription: bytes, text: str) -> bytes:
    """SubscriptionError."""
    return encode_frame(ERROR, subscription + _c_string(text))


def encode_ack(subscription: bytes, tables: int, key: Sequence[int] | None = None) -> bytes:
    """SubscriptionAck; with a key a tail follows: how many columns it has, and the position of each."""
    tail = b"" if key is None else b"".join(map(_UINT16.pack, (len(key), *key)))
    return encode_frame(ACK, subscription + _UINT16.pack(tables) + tail)


def open_data(update: Update, count: int, rows: bytes) -> Open:
    """A SubscriptionData whose rows are encoded already."""
    return _open(DATA, update, count, rows)


def open_partial(count: int, rows: bytes) -> Open:
    """A SubscriptionPartialData whose rows are encoded already."""
    return _open(PARTIAL, _PARTIAL_UPDATE, count, rows)


def encode_partial_row(columns: int, values: Mapping[int, bytes | None]) -> bytes:
    """A row of SubscriptionPartialData; the values stand in the order of their positions."""
    ordered = [values[position] for position in sorted(values)]
    encoded = b"".join(_INT32.pack(-1) if value is None else _INT32.pack(len(value)) + value for value in ordered)
    return _UINT16.pack(columns) + bitmap(columns, frozenset(values)) + encoded


def encode_lsn(lsn: Lsn) -> bytes:
    """The ParameterStatus that closes a batch for those who asked for it: the state that was reached."""
    return encode_parameter_status("tidewire.lsn", format_lsn(lsn))


def encode_parameter_status(name: str, value: str) -> bytes:
    return encode_frame(PARAMETER_STATUS, f"{name}\0{value}\0".encode())


def _open(kind: int, update: int, count: int, rows: bytes) -> Open:
    length = 4 + ID_BYTES + 1 + _INT32.size + len(rows)
    return bytes((kind,)) + _INT32.pack(length), bytes((update,)) + _INT32.pack(count) + rows


def decode_from_client(frame: Frame) -> FromClient:
    cursor = Cursor(frame.body)
    message: FromClient
    match frame.type:
        case 0xF0:
            message = _subscribe(cursor)
        case 0xF1:
            message = Unsubscribe(_subscription(cursor))
        case 0xF5:
            message = Pause(_subscription(cursor))
        case 0xF6:
            message = Resume(_subscription(cursor))
        case _:
            raise MalformedMessage(f"0x{frame.type:02X} is not a live message of a client")
    cursor.end()
    return message


def decode_from_gateway(frame: Frame) -> FromGateway:
    cursor = Cursor(frame.body)
    message: FromGateway
    match frame.type:
        case 0xF2:
            message = _data(cursor)
        case 0xF3:
            message = Refused(_subscription(cursor), cursor.string())
        case 0xF4:
            message = Ack(_subscription(cursor), cursor.uint16(), _key(cursor) if cursor.left else None)
        case 0xF7:
            message = _partial(cursor)
        case _:
            raise MalformedMessage(f"0x{frame.type:02X} is not a live message of a gateway")
    cursor.end()
    return message


def bitmap(columns: int, present: frozenset[int]) -> bytes:
    """Which columns a partial row holds: bit i % 8 of byte i // 8, the lowest bit first."""
    bits = bytearray((columns + 7) // 8)
    for position in present:
        bits[position // 8] |= 1 << position % 8
    return bytes(bits)


def _subscribe_body(message: Subscribe) -> bytes:
    parts = [_c_string(message.query), _INT16.pack(len(message.parameters))]
    parts += [_INT32.pack(-1) if value is None else _INT32.pack(len(value)) + value for value in message.parameters]
    if message.filter is not None or message.selective is not None:
        text = (message.filter or "").encode()
        parts += [_INT16.pack(len(text)), text]
    if message.selective is not None:
        parts.append(_selective_block(message.selective))
    return b"".join(parts)


def _selective_block(selective: Selective) -> bytes:
    flags, fields = 0, b""
    if selective.enabled is not None:
        flags, fields = flags | 1, fields + bytes((selective.enabled,))
    if selective.min_changed_columns is not None:
        flags, fields = flags | 2, fields + _UINT16.pack(selective.min_changed_columns)
    if selective.max_changed_columns_ratio is not None:
        flags, fields = flags | 4, fields + _FLOAT64.pack(selective.max_changed_columns_ratio)
    return bytes((flags,)) + fields


def _subscribe(cursor: Cursor) -> Subscribe:
    query = cursor.string()
    parameters = tuple(cursor.value() for _ in range(cursor.count()))
    text = utf8(cursor.take(cursor.count())) if cursor.left else ""
    return Subscribe(query, parameters, text or None, _selective(cursor) if cursor.left else None)


def _selective(cursor: Cursor) -> Selective | None:
    flags = cursor.uint8()
    if flags & ~7:
        raise MalformedMessage(f"flags 0x{flags:02X} of a Subscribe are not known")
    if not flags:
        return None
    return Selective(
        enabled=bool(cursor.uint8()) if flags & 1 else None,
        min_changed_columns=cursor.uint16() if flags & 2 else None,
        max_changed_columns_ratio=cursor.float64() if flags & 4 else None,
    )


def _data(cursor: Cursor) -> Data:
    subscription, kind, count = _subscription(cursor), cursor.uint8(), cursor.int32()
    if kind not in Update.__members__.values():
        raise MalformedMessage(f"{kind} is not an update type")
    rows = tuple(tuple(cursor.value() for _ in range(cursor.count())) for _ in range(count))
    return Data(subscription, Update(kind), rows)


def _partial(cursor: Cursor) -> PartialData:
    subscription, kind, count = _subscription(cursor), cursor.uint8(), cursor.int32()
    if kind != _PARTIAL_UPDATE:
        raise MalformedMessage(f"{kind} is not the update type of partial rows")
    return PartialData(subscription, tuple(_read_partial_row(cursor) for _ in range(count)))


def _read_partial_row(cursor: Cursor) -> PartialRow:
    columns = cursor.uint16()
    bits = cursor.take((columns + 7) // 8)
    present = [position for position in range(columns) if bits[position // 8] >> position % 8 & 1]
    return PartialRow(columns, {position: cursor.value() for position in present})


def _key(cursor: Cursor) -> tuple[int, ...]:
    return tuple(cursor.uint16() for _ in range(cursor.uint16()))


def _subscription(cursor: Cursor) -> UUID:
    return UUID(bytes=cursor.take(16))


def _c_string(text: str) -> bytes:
    return text.replace("\0", "").encode() + b"\0"
