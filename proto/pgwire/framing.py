"""Frame boundaries in a stream of bytes: type, length, body."""

from collections.abc import Iterator
from struct import Struct as Packed

from msgspec import Struct

from proto.pgwire.errors import MalformedMessage

# A subscription's SQL and parameters fit many times; what PostgreSQL takes in other messages is its own concern.
FRAME_LIMIT_BYTES = 16 * 1024 * 1024

_LENGTH = Packed("!i")
HEADER_BYTES = 5


class Frame(Struct, frozen=True):
    """One whole message: its type byte, and its body without type and length."""

    type: int
    body: bytes


def encode_frame(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + _LENGTH.pack(len(body) + 4) + body


def body_length(header: bytes | bytearray | memoryview, at: int = 0) -> int:
    """The length of the body that follows a header; the length field counts itself."""
    (length,) = _LENGTH.unpack_from(header, at + 1)
    if length < 4:
        raise impossible_length(header[at], length)
    return int(length) - 4


def impossible_length(kind: int, length: int) -> MalformedMessage:
    return MalformedMessage(f"a message of type 0x{kind:02X} has the impossible length {length}")


class Framer:
    """Bytes in, whole frames out; keeps what is not whole yet, up to a limit."""

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._buffer = bytearray()
        self._limit_bytes = limit_bytes

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def frames(self) -> Iterator[Frame]:
        while frame := self.take():
            yield frame

    def take(self) -> Frame | None:
        """The next frame; None if it is not whole yet."""
        if len(self._buffer) < HEADER_BYTES:
            return None
        length = body_length(self._buffer)
        if length > self._limit_bytes:
            raise MalformedMessage(
                f"a message of type 0x{self._buffer[0]:02X} has {length} bytes, over the limit of {self._limit_bytes}"
            )
        end = HEADER_BYTES + length
        if len(self._buffer) < end:
            return None
        frame = Frame(self._buffer[0], bytes(self._buffer[HEADER_BYTES:end]))
        del self._buffer[:end]
        return frame

    @property
    def pending_bytes(self) -> int:
        return len(self._buffer)
