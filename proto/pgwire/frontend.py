"""The messages of clients that the gateway must understand beside the live ones."""

import re
from struct import Struct as Packed
from typing import TypeAlias

from msgspec import Struct

from proto.pgwire.cursor import Cursor
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame
from proto.pgwire.live import FRONTEND_TYPES, FromClient, decode_from_client

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
STARTUP_LIMIT_BYTES = 10_000  # PostgreSQL's own limit
# The first byte of a client that begins with TLS at once, as libpq 17 can.
TLS_HANDSHAKE = 0x16
# A word of the start-up parameter `options`; spaces in it stand behind backslashes.
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
# What a client of protocol version 3 may send after its startup: section 54.7 of PostgreSQL's manual.
TYPES = frozenset(b"BCcdDEfFHpPQSX") | FRONTEND_TYPES

SSL_REQUEST_PACKET = Packed("!ii").pack(8, SSL_REQUEST)
_INT32 = Packed("!i")


class Startup(Struct, frozen=True, tag=True):
    parameters: dict[str, str]

    @property
    def user(self) -> str:
        return self.parameters.get("user", "")

    @property
    def database(self) -> str:
        return self.parameters.get("database") or self.user

    @property
    def for_replication(self) -> bool:
        """PostgreSQL would give it a walsender, whose messages follow other laws."""
        return "replication" in self.parameters

    def asks_for(self, setting: str) -> bool:
        """Whether the start-up message switches a setting of ours on, by its name or in `options`.

        PostgreSQL may read it differently: it is a wish, not a fact.
        """
        return any(value.lower() in ("on", "true", "yes", "1") for value in self.values_of(setting))

    def values_of(self, setting: str) -> list[str]:
        """The values that the start-up message gives a setting of ours, by its name and in `options`."""
        named = [value for name, value in self.parameters.items() if name.lower() == setting]
        words = [word.replace("\\", "") for word in _WORD.findall(self.parameters.get("options", ""))]
        wanted = [word[2:] for word in words if word.startswith(("-c", "--"))] + words
        found = [word.partition("=")[2] for word in wanted if word.startswith(f"{setting}=")]
        return [*named[-1:], *found[-1:]]


class EncryptionRequest(Struct, frozen=True, tag=True):
    """SSLRequest or GSSENCRequest: answered by one byte."""

    by_tls: bool


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
    if head[0] == TLS_HANDSHAKE:
        raise MalformedMessage("TLS without PostgreSQL's SSLRequest is not taken here: use sslnegotiation=postgres")
    if not 8 <= length <= STARTUP_LIMIT_BYTES:
        raise MalformedMessage(f"a first message of {length} bytes is not PostgreSQL's protocol")
    return int(length)


def decode_opening(packet: bytes) -> Opening:
    cursor = Cursor(packet[4:])
    code = cursor.int32()
    if code in (SSL_REQUEST, GSS_REQUEST):
        return EncryptionRequest(code == SSL_REQUEST)
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
