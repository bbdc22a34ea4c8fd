"""Reads Spark's answers from Arrow: numbers, and arrays of canonical texts."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc

Texts = list[bytes | None]


def numbers(column: pa.ChunkedArray) -> list[int]:
    return _one(column).to_pylist()  # type: ignore[no-any-return]


def texts(column: pa.ChunkedArray | pa.Array) -> Iterator[Texts]:
    """The arrays of a column one by one; one that is NULL is empty."""
    lists = _one(column)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    values = lists.flatten().cast(pa.binary()).to_pylist()
    for begin, end in pairwise(accumulate(lengths, initial=0)):
        yield values[begin:end]


def matches(column: pa.ChunkedArray) -> Iterator[tuple[int, int, Texts]]:
    """For each element of a column of arrays: the number of its row, its slot, and its texts if it has some."""
    lists = _one(column)
    rows: Sequence[int] = pc.list_parent_indices(lists).to_pylist()
    elements = lists.flatten()
    if pa.types.is_struct(elements.type):
        yield from zip(rows, elements.field("n").to_pylist(), texts(elements.field("r")), strict=True)
    else:
        yield from ((row, slot, []) for row, slot in zip(rows, elements.to_pylist(), strict=True))


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
