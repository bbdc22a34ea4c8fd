"""What a stream tells, before it is put into SSE or WebSocket."""

from typing import TypeAlias

from msgspec import Struct


class Told(Struct, frozen=True):
    """An event as bytes."""

    seq: int
    op: str
    data: bytes


class Events(Struct, frozen=True):
    told: list[Told]


class Control(Struct, frozen=True):
    """`backpressure`, `resnapshot`, or the `error` that ends the stream; at this position of the log."""

    name: str
    at: int
    data: bytes


class Silence(Struct, frozen=True):
    """Nothing to tell for so long that the client should hear that."""


Piece: TypeAlias = Events | Control | Silence
