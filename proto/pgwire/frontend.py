"""The messages of clients that the gateway must understand beside the live ones."""

from struct import Struct as Packed
from typing import TypeAlias

from msgspec import Struct

from proto.pgwire.cursor import Cursor
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame
from proto.pgwire.live import FRONTEND_TYPES, FromClient, decode_from_client

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
STARTUP_LIMIT_BYTES = 10_000  # PostgreSQL's own limit
# What a client of protocol version 3 may send after its startup: section 54.7 of PostgreSQL's manual.
TYPES = frozenset(b"BCcdDEfFHpPQSX") | FRONTEND_TYPES

_INT32 = Packed("!i")


class Startup(Struct, frozen=True, tag=True):
    parameters: dict[str, str]

    @property
    def user(self) -> str:
        return self.parameters.get("user", "")

    @property
    def database(self) -> str:
        return self.parameters.get("database") or self.user


class EncryptionRequest(Struct, frozen=True, tag=True):
    """SSLRequest or GSSENCRequest: answered by one byte."""


class CancelRequest(Struct, frozen=True, tag=True):
    pass


class Query(Struct, frozen=True, tag=True):
    query: str


class Terminate(Struct, frozen=True, tag=True):
    pass


Opening: TypeAlias = Startup | EncryptionRequest | CancelRequest


def opening_length(head: bytes) -> int:
    """The whole length of the first message, which has no type byte, from its first four bytes."""
    (length,) = _INT32.unpack(head)
    if not 8 <= length <= STARTUP_LIMIT_BYTES:
        raise MalformedMessage(f"a first message of {length} bytes is not PostgreSQL's protocol")
    return int(length)


def decode_opening(packet: bytes) -> Opening:
    cursor = Cursor(packet[4:])
    code = cursor.int32()
    if code in (SSL_REQUEST, GSS_REQUEST):
        return EncryptionRequest()
    if code == CANCEL_REQUEST:
        return CancelRequest()
    if code >> 16 != 3:
        raise MalformedMessage(f"protocol version {code >> 16} is not supported: use version 3")
    parameters: dict[str, str] = {}
    while name := cursor.string():
        parameters[name] = cursor.string()
    return Startup(parameters)


def decode(frame: Frame) -> FromClient | Query | Terminate:
    """A message with its fields; only those that the gateway itself has a use for."""
    if frame.type not in TYPES:
        raise MalformedMessage(f"0x{frame.type:02X} is not a message type")
    if frame.type in FRONTEND_TYPES:
        return decode_from_client(frame)
    cursor = Cursor(frame.body)
    message: Query | Terminate
    match frame.type:
        case 0x51:
            message = Query(cursor.string())
        case 0x58:
            message = Terminate()
        case _:
            raise MalformedMessage(f"0x{frame.type:02X} is passed on unread")
    cursor.end()
    return message
