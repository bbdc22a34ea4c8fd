"""The row block: result rows as PostgreSQL text, each with a signed weight, packed without a message for each row.

A row is: weight (i32), column count (i16), then for each column its length (i32, -1 for NULL) and its bytes. From the
column count on it is what the binary door sends in SubscriptionData, so that a gateway copies bytes.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Packed
from typing import TypeAlias

ResultRow: TypeAlias = tuple[bytes | None, ...]

_WEIGHT = Packed("!i")
_COUNT = Packed("!h")
_LENGTH = Packed("!i")
_NULL = _LENGTH.pack(-1)


def encode_row(row: ResultRow) -> bytes:
    parts = [_COUNT.pack(len(row))]
    for value in row:
        parts.append(_NULL if value is None else _LENGTH.pack(len(value)) + value)
    return b"".join(parts)


def encode_block(rows: Iterable[tuple[ResultRow, int]]) -> bytes:
    return b"".join(_WEIGHT.pack(weight) + encode_row(row) for row, weight in rows)


def decode_block(block: bytes) -> Iterator[tuple[ResultRow, int]]:
    at = 0
    while at < len(block):
        (weight,) = _WEIGHT.unpack_from(block, at)
        (count,) = _COUNT.unpack_from(block, at + 4)
        at += 6
        values: list[bytes | None] = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(block, at)
            at += 4
            if length < 0:
                values.append(None)
            else:
                values.append(block[at : at + length])
                at += length
        if at > len(block):
            raise ValueError(f"the row block ends {at - len(block)} bytes too early")
        yield tuple(values), weight
