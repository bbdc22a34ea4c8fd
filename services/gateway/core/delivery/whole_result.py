"""A whole result: its rows in the order of the block that brought them."""

from msgspec import Struct

from proto.multiset import EMPTY, shifted_encoded
from proto.rows import encoded_rows


class WholeResult(Struct, frozen=True):
    """`rows` are encoded by proto.rows, one behind the other, repeated rows as often as they occur."""

    row_count: int
    rows: bytes
    state_hash: bytes


class LastWholeResult:
    """Remembers the last result that was decoded: many who subscribe to one query at once get the same rows."""

    def __init__(self) -> None:
        self._block: bytes | None = None
        self._result = WholeResult(0, b"", EMPTY)

    def of(self, block: bytes) -> WholeResult:
        if block != self._block:
            rows = list(encoded_rows(block))
            self._result = WholeResult(
                sum(weight for _, weight in rows),
                b"".join(row * weight for row, weight in rows),
                shifted_encoded(EMPTY, rows),
            )
            self._block = block
        return self._result
