"""The live messages F0–F7 (Tidewire's requirements V1–V53): what a client says, and what it is told."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias
from uuid import UUID

from tidewire.errors import ProtocolViolated
from tidewire.frames import FLOAT64, INT16, UINT16, Body, Frame, c_string, frame, value

SUBSCRIBE, UNSUBSCRIBE, DATA, ERROR, ACK, PAUSE, RESUME, PARTIAL = range(0xF0, 0xF8)
FROM_GATEWAY: Final = frozenset({DATA, ERROR, ACK, PARTIAL})
# In an error: there is no subscription yet.
NOBODY: Final = UUID(int=0)
PARTIAL_UPDATE = 4
# Counts and the filter's length are signed 16-bit numbers.
MOST = 32767

Row: TypeAlias = tuple[bytes | None, ...]


class Update(IntEnum):
    """What the rows of a SubscriptionData are."""

    FULL = 0
    INSERT = 1
    UPDATE = 2
    DELETE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """When partial rows are wanted; None leaves a point to the server's settings (V17, V51)."""

    enabled: bool | None = None
    min_changed_columns: int | None = None
    max_changed_columns_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Subscribe:
    query: str
    parameters: tuple[bytes | None, ...] = ()
    filter: str | None = None
    partial: Partial | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    subscription: UUID


@dataclass(frozen=True, slots=True)
class Pause:
    subscription: UUID


@dataclass(frozen=True, slots=True)
class Resume:
    subscription: UUID


@dataclass(frozen=True, slots=True)
class Data:
    subscription: UUID
    update: Update
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """SubscriptionError."""

    subscription: UUID
    words: str


@dataclass(frozen=True, slots=True)
class Ack:
    subscription: UUID
    tables: int
    # The places of the key's columns, if the gateway says them.
    key: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartialRow:
    """The values that changed, and those of the key, by the place of their column."""

    columns: int
    values: dict[int, bytes | None]

    def over(self, row: Row) -> Row:
        """The row that this one makes of the one held before (V53)."""
        if len(row) != self.columns:
            raise ProtocolViolated(f"a partial row of {self.columns} columns came for a row of {len(row)}")
        return tuple(self.values.get(place, old) for place, old in enumerate(row))


@dataclass(frozen=True, slots=True)
class PartialData:
    subscription: UUID
    rows: tuple[PartialRow, ...]


ToGateway: TypeAlias = Subscribe | Unsubscribe | Pause | Resume
FromGateway: TypeAlias = Data | Failed | Ack | PartialData


def encode(message: ToGateway) -> bytes:
    match message:
        case Subscribe():
            return frame(SUBSCRIBE, _subscribe(message))
        case Unsubscribe(subscription=subscription):
            return frame(UNSUBSCRIBE, subscription.bytes)
        case Pause(subscription=subscription):
            return frame(PAUSE, subscription.bytes)
        case Resume(subscription=subscription):
            return frame(RESUME, subscription.bytes)


def decode(found: Frame) -> FromGateway:
    body = Body(found.body)
    message: FromGateway
    match found.type:
        case 0xF2:
            message = _data(body)
        case 0xF3:
            message = Failed(_id(body), body.string())
        case 0xF4:
            message = Ack(_id(body), body.uint16(), _key(body) if body.left else None)
        case 0xF7:
            message = _partial_data(body)
        case _:
            raise ProtocolViolated(f"0x{found.type:02X} is no live message of a gateway")
    body.end()
    return message


def places(columns: int, bits: bytes) -> list[int]:
    """The columns whose bits are set: bit i % 8 of byte i // 8, the lowest first (V42)."""
    return [place for place in range(columns) if bits[place // 8] >> place % 8 & 1]


def _subscribe(message: Subscribe) -> bytes:
    if len(message.parameters) > MOST:
        raise ValueError(f"a query has at most {MOST} parameters, not {len(message.parameters)}: pass an array")
    body = c_string(message.query) + INT16.pack(len(message.parameters)) + b"".join(map(value, message.parameters))
    if message.filter is None and message.partial is None:
        return body
    text = (message.filter or "").encode()
    if len(text) > MOST:
        raise ValueError(f"a filter has at most {MOST} bytes, not {len(text)}: put it into the query")
    body += INT16.pack(len(text)) + text
    return body if message.partial is None else body + _flags(message.partial)


def _flags(partial: Partial) -> bytes:
    fields = (
        (1, None if partial.enabled is None else bytes((partial.enabled,))),
        (2, None if partial.min_changed_columns is None else UINT16.pack(partial.min_changed_columns)),
        (4, None if partial.max_changed_columns_ratio is None else FLOAT64.pack(partial.max_changed_columns_ratio)),
    )
    given = [(bit, field) for bit, field in fields if field is not None]
    return bytes((sum(bit for bit, _ in given),)) + b"".join(field for _, field in given)


def _key(body: Body) -> tuple[int, ...]:
    return tuple(body.uint16() for _ in range(body.uint16()))


def _id(body: Body) -> UUID:
    return UUID(bytes=body.take(16))


def _data(body: Body) -> Data:
    subscription, kind, count = _id(body), body.uint8(), body.int32()
    if kind not in Update.__members__.values() or count < 0:
        raise ProtocolViolated(f"a SubscriptionData of type {kind} with {count} rows")
    rows = tuple(tuple(body.value() for _ in range(body.count())) for _ in range(count))
    return Data(subscription, Update(kind), rows)


def _partial_data(body: Body) -> PartialData:
    subscription, kind, count = _id(body), body.uint8(), body.int32()
    if kind != PARTIAL_UPDATE or count < 0:
        raise ProtocolViolated(f"a SubscriptionPartialData of type {kind} with {count} rows")
    return PartialData(subscription, tuple(_partial_row(body) for _ in range(count)))


def _partial_row(body: Body) -> PartialRow:
    columns = body.uint16()
    present = places(columns, body.take((columns + 7) // 8))
    return PartialRow(columns, {place: body.value() for place in present})
