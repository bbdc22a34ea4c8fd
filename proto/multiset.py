"""An additive hash of a multiset of rows: adding and taking away rows adds and takes away their hashes."""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

from proto.rows import ResultRow, encode_row

_MODULUS = 1 << 128

EMPTY = bytes(16)


def shifted(state: bytes, rows: Iterable[tuple[ResultRow, int]]) -> bytes:
    """The hash of the state after `rows` with their signed weights came to the state with hash `state`."""
    return shifted_encoded(state, ((encode_row(row), weight) for row, weight in rows))


def shifted_encoded(state: bytes, rows: Iterable[tuple[bytes, int]]) -> bytes:
    """The same for rows that are encoded already."""
    total = int.from_bytes(state)
    for encoded, weight in rows:
        total += weight * int.from_bytes(blake2b(encoded, digest_size=16).digest())
    return (total % _MODULUS).to_bytes(16)


def counted(rows: Iterable[tuple[ResultRow, int]]) -> Counter[ResultRow]:
    """The multiset of a block; a row may stand in it more than once, since an ordered result keeps its order."""
    total: Counter[ResultRow] = Counter()
    for row, weight in rows:
        total[row] += weight
    return total
