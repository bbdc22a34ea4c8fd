"""The messages of the channel: compact JSON with the keys in the order that the document gives them (P10 to P25)."""

from collections.abc import Iterable, Sequence
from json.encoder import encode_basestring

from proto.rows import ResultRow
from services.recompute.core.notify.json_values import TypeShape, json_value

LONGEST_NOTIFY, RESERVE = 8000, 100


def budget(channel: str) -> int:
    """How many bytes a delta may have (P17)."""
    return LONGEST_NOTIFY - len(channel.encode()) - RESERVE


class RowPrinter:
    """Prints rows as objects, keyed by column in the order of the select list."""

    def __init__(self, columns: Sequence[tuple[str, TypeShape]]) -> None:
        self._columns = [(encode_basestring(name) + ":", shape) for name, shape in columns]

    def __call__(self, row: ResultRow) -> str:
        values = (
            name + json_value(None if value is None else value.decode(), shape)
            for (name, shape), value in zip(self._columns, row, strict=True)
        )
        return "{" + ",".join(values) + "}"


def delta(query_id: str, seq: int, gen: int, inserted: Iterable[str], deleted: Iterable[str]) -> bytes:
    return (
        f'{{"query_id":{encode_basestring(query_id)},"seq":{seq},"gen":{gen},'
        f'"inserted":[{",".join(inserted)}],"deleted":[{",".join(deleted)}]}}'
    ).encode()


def overflow(query_id: str, seq: int, gen: int) -> bytes:
    named = encode_basestring(query_id)
    return f'{{"type":"overflow","query_id":{named},"seq":{seq},"gen":{gen},"fetch":true}}'.encode()


def invalidated(query_id: str, seq: int, gen: int) -> bytes:
    return f'{{"type":"invalidated","query_id":{encode_basestring(query_id)},"seq":{seq},"gen":{gen}}}'.encode()


def resubscribed(query_id: str, gen: int) -> bytes:
    return f'{{"type":"resubscribed","query_id":{encode_basestring(query_id)},"gen":{gen}}}'.encode()
