"""The row block: result rows as PostgreSQL text, each with a signed weight, packed without a message for each row.

A row is: weight (i32), column count (i16), then for each column its length (i32, -1 for NULL) and its bytes. From the
column count on it is what the binary door sends in SubscriptionData, so that a gateway copies bytes.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Packed
from struct import error as StructError
from typing import TypeAlias

ResultRow: TypeAlias = tuple[bytes | None, ...]

_WEIGHT = Packed("!i")
_COUNT = Packed("!h")
_LENGTH = Packed("!i")
_NULL = _LENGTH.pack(-1)


class DamagedBlock(ValueError):
    """Bytes that are not a row block: cut, or something else."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"the row block is damaged: {detail}")


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
        try:
            (weight,) = _WEIGHT.unpack_from(block, at)
            row, at = _row(block, at + _WEIGHT.size)
        except StructError as error:
            raise DamagedBlock(str(error)) from error
        yield row, weight


def encoded_rows(block: bytes) -> Iterator[tuple[bytes, int]]:
    """Each row as it is encoded, with its weight: for who passes rows on and need not look into them."""
    at = 0
    while at < len(block):
        try:
            (weight,) = _WEIGHT.unpack_from(block, at)
            begin, at = at + _WEIGHT.size, _end_of_row(block, at + _WEIGHT.size)
        except StructError as error:
            raise DamagedBlock(str(error)) from error
        yield block[begin:at], weight


def decode_row(encoded: bytes) -> ResultRow:
    return _row(encoded, 0)[0]


def decode_rows(encoded: bytes) -> Iterator[ResultRow]:
    """Encoded rows that stand one behind the other."""
    at = 0
    while at < len(encoded):
        try:
            row, at = _row(encoded, at)
        except StructError as error:
            raise DamagedBlock(str(error)) from error
        yield row


def _end_of_row(block: bytes, at: int) -> int:
    (count,) = _COUNT.unpack_from(block, at)
    if count < 0:
        raise DamagedBlock(f"a row of {count} columns")
    at += _COUNT.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(block, at)
        if length < -1:
            raise DamagedBlock(f"a value of {length} bytes")
        at += _LENGTH.size + max(length, 0)
    if at > len(block):
        raise DamagedBlock(f"a row ends {at - len(block)} bytes behind the block")
    return at


def _row(block: bytes, at: int) -> tuple[ResultRow, int]:
    (count,) = _COUNT.unpack_from(block, at)
    at += _COUNT.size
    if count < 0:
        raise DamagedBlock(f"a row of {count} columns")
    values: list[bytes | None] = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(block, at)
        at += _LENGTH.size
        if length < -1:
            raise DamagedBlock(f"a value of {length} bytes")
        if length == -1:
            values.append(None)
            continue
        value = block[at : at + length]
        if len(value) != length:
            raise DamagedBlock(f"a value has {len(value)} of {length} bytes")
        values.append(value)
        at += length
    return tuple(values), at
