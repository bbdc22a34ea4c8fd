"""How a client is told that its result went from one state to another."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from proto.pgwire.live import Update
from proto.rows import ResultRow, encode_row

Rows = Counter[ResultRow]


class Piece(Struct, frozen=True):
    """Rows of one SubscriptionData, encoded once for all subscribers."""

    update: Update
    count: int
    rows: bytes


def net_between(before: Rows, after: Rows) -> dict[ResultRow, int]:
    return {row: after[row] - before[row] for row in {**before, **after} if after[row] != before[row]}


def full(rows: Rows) -> Piece:
    return _piece(Update.FULL, rows.elements())


def pieces(net: Mapping[ResultRow, int], key_positions: Sequence[int]) -> list[Piece]:
    """Deletes, then updates, then inserts; without a certain key there are no updates."""
    gone = [row for row, weight in net.items() for _ in range(-weight)]
    come = [row for row, weight in net.items() for _ in range(weight)]
    updated: list[ResultRow] = []
    if key_positions:
        keys_gone = {_key(row, key_positions) for row in gone}
        updated = [row for row in come if _key(row, key_positions) in keys_gone]
        keys_updated = {_key(row, key_positions) for row in updated}
        gone = [row for row in gone if _key(row, key_positions) not in keys_updated]
        come = [row for row in come if _key(row, key_positions) not in keys_updated]
    parts = ((Update.DELETE, gone), (Update.UPDATE, updated), (Update.INSERT, come))
    return [_piece(update, rows) for update, rows in parts if rows]


def _key(row: ResultRow, positions: Sequence[int]) -> ResultRow:
    return tuple(row[position] for position in positions)


def _piece(update: Update, rows: Iterable[ResultRow]) -> Piece:
    encoded = [encode_row(row) for row in rows]
    return Piece(update, len(encoded), b"".join(encoded))
