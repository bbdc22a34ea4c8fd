"""A whole result as it is sent: its rows in the order of the block."""

from msgspec import Struct

from proto.multiset import EMPTY, shifted_encoded
from proto.rows import encoded_rows


class Whole(Struct, frozen=True):
    count: int
    rows: bytes
    state_hash: bytes


class LastWhole:
    """Many who come at once to the same query get the same rows: they are looked at once."""

    def __init__(self) -> None:
        self._block: bytes | None = None
        self._whole = Whole(0, b"", EMPTY)

    def of(self, block: bytes) -> Whole:
        if block != self._block:
            rows = list(encoded_rows(block))
            self._whole = Whole(
                sum(weight for _, weight in rows),
                b"".join(row * weight for row, weight in rows),
                shifted_encoded(EMPTY, rows),
            )
            self._block = block
        return self._whole
