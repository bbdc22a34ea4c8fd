"""Large results in `deltas`: cut into parts that Kafka takes, and put together again."""

from collections.abc import Iterable, Iterator

from proto.rows import ResultRow, encode_block
from proto.tidewire.v1.deltas_pb2 import Delta

# Kafka takes records of 1 MB unless told otherwise; the rest is for the record's other fields.
PART_BYTES = 800_000


def cut(delta: Delta, rows: Iterable[tuple[ResultRow, int]]) -> Iterator[Delta]:
    """The delta with its rows in as many parts as needed; only the first has the columns."""
    block = bytearray()
    part = 0
    for row in rows:
        encoded = encode_block((row,))
        if block and len(block) + len(encoded) > PART_BYTES:
            yield _part(delta, bytes(block), part, last=False)
            block, part = bytearray(), part + 1
        block += encoded
    yield _part(delta, bytes(block), part, last=True)


def _part(delta: Delta, rows: bytes, part: int, *, last: bool) -> Delta:
    made = Delta()
    made.CopyFrom(delta)
    made.rows, made.part, made.last = rows, part, last
    if part:
        made.ClearField("columns")
    return made


class Assembler:
    """Takes the parts of many deltas in the order of their partition; gives each delta once it is whole."""

    def __init__(self) -> None:
        self._open: dict[tuple[bytes, bytes], Delta] = {}

    def feed(self, delta: Delta, request_id: bytes = b"") -> Delta | None:
        """`request_id` tells a snapshot from the deltas of its query."""
        if delta.part == 0 and delta.last:
            self._open.pop((delta.query_id, request_id), None)
            return delta
        if delta.part == 0:
            begun = Delta()
            begun.CopyFrom(delta)
            self._open[delta.query_id, request_id] = begun
            return None
        known = self._open.get((delta.query_id, request_id))
        if known is None or (known.to_lsn, known.part + 1) != (delta.to_lsn, delta.part):
            # Its beginning was not seen, or a new writer began it again: what is missing shows as a gap.
            self._open.pop((delta.query_id, request_id), None)
            return None
        known.rows += delta.rows
        known.part = delta.part
        return self._open.pop((delta.query_id, request_id)) if delta.last else None
