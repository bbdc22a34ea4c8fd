"""Frames of the PostgreSQL protocol: a type byte, a length that counts itself, a body. Bytes in, frames out."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tidewire.errors import ProtocolViolated

INT16, UINT16, INT32, FLOAT64 = Struct("!h"), Struct("!H"), Struct("!i"), Struct("!d")
HEAD = Struct("!Bi")
# PostgreSQL itself sends no message over 1 GB.
MOST_BYTES = 1 << 30


class Frame(NamedTuple):
    type: int
    body: bytes


def frame(kind: int, body: bytes) -> bytes:
    """A message as bytes."""
    return HEAD.pack(kind, len(body) + 4) + body


class Framer:
    """Cuts a stream into frames, however the network has cut it."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def frames(self) -> Iterator[Frame]:
        """The frames that are whole."""
        while found := self.take():
            yield found

    def rest(self) -> bytes:
        """What has come of the next frame; it is not kept."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def take(self) -> Frame | None:
        """The next frame, or None if it is not whole yet."""
        if len(self._buffer) < HEAD.size:
            return None
        kind, length = HEAD.unpack_from(self._buffer)
        if not 4 <= length <= MOST_BYTES:
            raise ProtocolViolated(f"a message of type 0x{kind:02X} says that it is {length} bytes long")
        if len(self._buffer) < 1 + length:
            return None
        body = bytes(self._buffer[HEAD.size : 1 + length])
        del self._buffer[: 1 + length]
        return Frame(kind, body)


class Body:
    """Reads a body from front to back, and never past its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise ProtocolViolated(f"a message ends {self.left} bytes from where {count} more should stand")
        self._at += count
        return self._data[self._at - count : self._at]

    def uint8(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        return int(INT16.unpack(self.take(2))[0])

    def uint16(self) -> int:
        return int(UINT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(INT32.unpack(self.take(4))[0])

    def float64(self) -> float:
        return float(FLOAT64.unpack(self.take(8))[0])

    def count(self) -> int:
        """A 16-bit count, which cannot be negative."""
        number = self.int16()
        if number < 0:
            raise ProtocolViolated(f"a message counts {number} of something")
        return number

    def value(self) -> bytes | None:
        """A length and that many bytes; the length -1 is NULL."""
        length = self.int32()
        return None if length == -1 else self.take(length)

    def string(self) -> str:
        """Up to the next NUL."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolated("a text in a message has no end")
        text = self.take(end - self._at)
        self.take(1)
        return utf8(text)

    def end(self) -> None:
        if self.left:
            raise ProtocolViolated(f"a message has {self.left} bytes too many")


def utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolated(f"a text in a message is not UTF-8: {error}") from error


def value(data: bytes | None) -> bytes:
    """What `Body.value` reads."""
    return INT32.pack(-1) if data is None else INT32.pack(len(data)) + data


def c_string(text: str) -> bytes:
    if "\0" in text:
        raise ValueError("PostgreSQL's texts cannot contain the character NUL: take it out")
    return text.encode() + b"\0"
