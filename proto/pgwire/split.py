"""Two kinds of messages in one stream: those to pass on untouched, and those to take out whole."""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import FRAME_LIMIT_BYTES, HEADER_BYTES, Frame, body_length


class Passed(Struct, frozen=True):
    """Bytes that go on as they came; they may be a part of a message, or several messages."""

    data: bytes


Piece: TypeAlias = Passed | Frame


class Splitter:
    """Passes a stream on as it arrives, without waiting for whole messages, and takes out the types named.

    `taken` messages come out as frames and are not passed. `seen` messages come out as frames and are passed as well.
    """

    def __init__(
        self,
        *,
        taken: frozenset[int] = frozenset(),
        seen: frozenset[int] = frozenset(),
        limit_bytes: int = FRAME_LIMIT_BYTES,
    ) -> None:
        self._taken, self._seen = taken, seen
        self._limit_bytes = limit_bytes
        self._buffer = b""
        # Bytes of a message being passed that are still to come.
        self._passing = 0

    @property
    def at_boundary(self) -> bool:
        """Whether all that was passed on so far ends with a whole message."""
        return self._passing == 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        data = self._buffer + data if self._buffer else data
        self._buffer = b""
        at = min(self._passing, len(data))
        self._passing -= at
        begin, end = 0, len(data)
        while end - at >= HEADER_BYTES:
            kind, length = data[at], HEADER_BYTES + body_length(data, at)
            if kind in self._taken or kind in self._seen:
                if length > self._limit_bytes:
                    raise MalformedMessage(f"a message of type 0x{kind:02X} has {length} bytes, over the limit")
                if end - at < length:
                    break
                passed_to = at if kind in self._taken else at + length
                if passed_to > begin:
                    yield Passed(data[begin:passed_to])
                yield Frame(kind, data[at + HEADER_BYTES : at + length])
                begin = at = at + length
                continue
            at += length
            if at > end:
                self._passing = at - end
                at = end
        if at > begin:
            yield Passed(data[begin:at])
        self._buffer = data[at:]
