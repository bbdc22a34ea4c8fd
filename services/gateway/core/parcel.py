"""Messages encoded once and addressed to many: what subscribers with the same wishes are sent."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from proto.pgwire.live import Open, Update, encode_lsn, encode_partial_row, open_data, open_partial
from proto.positions import Lsn
from services.gateway.core.difference import Change, Pair
from services.gateway.core.selective import Rule, Verdict

SELECTIVE = "selective"
TYPES = {
    Update.FULL: "full",
    Update.INSERT: "delta_insert",
    Update.UPDATE: "delta_update",
    Update.DELETE: "delta_delete",
}


class Wish(Struct, frozen=True):
    """What makes the bytes of two subscribers differ, beside their ids."""

    rule: Rule
    wants_lsn: bool


class Shape(Struct, frozen=True):
    """A changed row for the metrics: how many of its columns changed, and how many were sent."""

    changed: int
    sent: int
    columns: int


class Tally(Struct, frozen=True):
    """What is counted for each who gets the parcel."""

    types: tuple[str, ...]
    rows: Counter[tuple[Verdict, Shape]]
    # What the partial message is shorter than one of whole rows; None if there is none.
    bytes_saved: int | None = None
    # Rows that may have been changed ones, had there been a certain key.
    unmatched: int = 0


class Parcel(Struct, frozen=True):
    """One batch: it ends at a committed state."""

    messages: tuple[Open, ...]
    tally: Tally

    def addressed(self, subscription: bytes) -> bytes:
        if len(self.messages) == 1:
            ((before, after),) = self.messages
            return b"".join((before, subscription, after))
        return b"".join(part for before, after in self.messages for part in (before, subscription, after))


def parcel_of(change: Change, wish: Wish, lsn: Lsn) -> Parcel:
    """V34: deletes, partial rows, updates, inserts; V48: rows over and under the threshold part ways, none is lost."""
    judged = [(wish.rule.judge(len(pair.changed), len(pair.row)), pair) for pair in change.pairs]
    partial = [_partial(pair, change.key_positions) for verdict, pair in judged if verdict is Verdict.PARTIAL]
    whole = [pair.encoded for verdict, pair in judged if verdict is not Verdict.PARTIAL]
    messages: list[tuple[str, Open]] = []
    _add(messages, Update.DELETE, change.gone)
    if partial:
        messages.append((SELECTIVE, open_partial(len(partial), b"".join(partial))))
    _add(messages, Update.UPDATE, whole)
    _add(messages, Update.INSERT, change.come)
    saved = sum(len(pair.encoded) for verdict, pair in judged if verdict is Verdict.PARTIAL) - sum(map(len, partial))
    tally = Tally(
        tuple(name for name, _ in messages),
        Counter((verdict, _shape(verdict, pair, change)) for verdict, pair in judged),
        saved if partial else None,
        0 if change.key_positions else min(len(change.gone), len(change.come)),
    )
    return _closed([opened for _, opened in messages], tally, wish, lsn)


def full_parcel(count: int, rows: bytes, wish: Wish, lsn: Lsn) -> Parcel:
    """The whole result."""
    opened = open_data(Update.FULL, count, rows)
    return _closed([opened], Tally((TYPES[Update.FULL],), Counter()), wish, lsn)


def _add(messages: list[tuple[str, Open]], update: Update, rows: Iterable[bytes]) -> None:
    encoded = tuple(rows)
    if encoded:
        messages.append((TYPES[update], open_data(update, len(encoded), b"".join(encoded))))


def _partial(pair: Pair, key_positions: Iterable[int]) -> bytes:
    """V44: the key's columns are always there."""
    values = {position: pair.row[position] for position in {*key_positions, *pair.changed}}
    return encode_partial_row(len(pair.row), values)


def _shape(verdict: Verdict, pair: Pair, change: Change) -> Shape:
    changed, columns = len(pair.changed), len(pair.row)
    sent = len({*change.key_positions, *pair.changed}) if verdict is Verdict.PARTIAL else columns
    return Shape(changed, sent, columns)


def _closed(messages: list[Open], tally: Tally, wish: Wish, lsn: Lsn) -> Parcel:
    if wish.wants_lsn and messages:
        before, after = messages[-1]
        messages[-1] = before, after + encode_lsn(lsn)
    return Parcel(tuple(messages), tally)
