"""Reading the fields of one message's body, never past its end."""

from struct import Struct as Packed

from proto.pgwire.errors import MalformedMessage

_INT16 = Packed("!h")
_UINT16 = Packed("!H")
_INT32 = Packed("!i")
_FLOAT64 = Packed("!d")


class Cursor:
    """A place in a body; each read moves it on."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise MalformedMessage(f"a field of {count} bytes does not fit into the {self.left} bytes that are left")
        self._at += count
        return self._body[self._at - count : self._at]

    def uint8(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def uint16(self) -> int:
        return int(_UINT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def float64(self) -> float:
        return float(_FLOAT64.unpack(self.take(8))[0])

    def count(self) -> int:
        """A number of things that follow."""
        number = self.int16()
        if number < 0:
            raise MalformedMessage(f"{number} is not a number of things")
        return number

    def value(self) -> bytes | None:
        """A length and so many bytes; -1 is NULL."""
        length = self.int32()
        return None if length == -1 else self.take(length)

    def string(self) -> str:
        """Text up to and without its NUL."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise MalformedMessage("a string has no end")
        text = self.take(end - self._at)
        self._at += 1
        return utf8(text)

    def end(self) -> None:
        if self.left:
            raise MalformedMessage(f"{self.left} bytes follow the last field")


def utf8(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage("a string is not UTF-8") from error
