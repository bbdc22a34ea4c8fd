"""The binary door: changes as F2 and F7, acknowledgements as F4, refusals as F3, inside the PostgreSQL protocol."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from proto.pgwire.live import (
    NO_SUBSCRIPTION,
    Open,
    encode_ack,
    encode_error,
    encode_lsn,
    encode_partial_row,
    open_data,
    open_partial,
)
from proto.pgwire.live import Update as UpdateType
from proto.positions import Lsn
from services.gateway.core.delivery.difference import Change, UpdatedRow
from services.gateway.core.delivery.encoder import Update
from services.gateway.core.delivery.whole_result import WholeResult
from services.gateway.core.encoders.partial_rows import PartialRowRule, RowDecision
from services.gateway.errors import Refusal, RefusalCode

# Labels of vibesql_subscription_updates_total.
SELECTIVE = "selective"
TYPE_LABELS = {
    UpdateType.FULL: "full",
    UpdateType.INSERT: "delta_insert",
    UpdateType.UPDATE: "delta_update",
    UpdateType.DELETE: "delta_delete",
}
# There never was a subscription: the error carries the zero id (decision 5).
WITHOUT_SUBSCRIPTION = frozenset(
    {
        RefusalCode.PARSE_ERROR,
        RefusalCode.FILTER_ERROR,
        RefusalCode.LIMIT_EXCEEDED,
        RefusalCode.RATE_LIMITED,
        RefusalCode.NOT_REGISTERED,
    }
)


class RowShape(Struct, frozen=True):
    """An updated row for the metrics: how many of its columns changed, and how many were sent."""

    changed: int
    sent: int
    columns: int


class BatchStatistics(Struct, frozen=True):
    """What the metrics count for each subscription that gets the batch."""

    types: tuple[str, ...]
    rows: Counter[tuple[RowDecision, RowShape]]
    # By how much the partial message is shorter than one of whole rows; None if there is none.
    bytes_saved: int | None = None
    # Rows that may have been updates, had there been a certain key.
    unmatched: int = 0


class BinaryBatch(Struct, frozen=True):
    """The messages of one update: together they end at a committed state."""

    messages: tuple[Open, ...]
    statistics: BatchStatistics

    def addressed(self, subscription: bytes) -> bytes:
        if len(self.messages) == 1:
            ((before, after),) = self.messages
            return b"".join((before, subscription, after))
        return b"".join(part for before, after in self.messages for part in (before, subscription, after))


class BinaryEncoder(Struct, frozen=True, eq=False):
    """`wants_lsn`: a ParameterStatus `tidewire.lsn` closes each batch. `wants_key`: F4 names the key columns.

    Equal are those whose updates have the same bytes, whatever their acknowledgements have.
    """

    rule: PartialRowRule
    wants_lsn: bool = False
    wants_key: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BinaryEncoder) and (self.rule, self.wants_lsn) == (other.rule, other.wants_lsn)

    def __hash__(self) -> int:
        return hash((self.rule, self.wants_lsn))

    def update(self, update: Update, lsn: Lsn) -> BinaryBatch:
        batch = self._whole(update) if isinstance(update, WholeResult) else self._change(update)
        if not (self.wants_lsn and batch.messages):
            return batch
        *others, (before, after) = batch.messages
        return BinaryBatch((*others, (before, after + encode_lsn(lsn))), batch.statistics)

    def acknowledgement(self, subscription: bytes, tables: int, key_positions: tuple[int, ...]) -> bytes:
        return encode_ack(subscription, tables, key_positions if self.wants_key else None)

    def refusal(self, subscription: bytes, refusal: Refusal) -> bytes:
        named = NO_SUBSCRIPTION.bytes if refusal.code in WITHOUT_SUBSCRIPTION else subscription
        return encode_error(named, refusal.message)

    def _whole(self, whole: WholeResult) -> BinaryBatch:
        message = open_data(UpdateType.FULL, whole.row_count, whole.rows)
        return BinaryBatch((message,), BatchStatistics((TYPE_LABELS[UpdateType.FULL],), Counter()))

    def _change(self, change: Change) -> BinaryBatch:
        """V34: deletes, partial rows, updates, inserts; V48: rows over and under the threshold are split, none lost."""
        decided = [(self.rule.decide(len(one.changed), len(one.row)), one) for one in change.updated]
        in_part = [one for decision, one in decided if decision is RowDecision.PARTIAL]
        whole = [one.encoded for decision, one in decided if decision is not RowDecision.PARTIAL]
        partial = [_partial_row(one, change.key_positions) for one in in_part]
        messages: list[tuple[str, Open]] = []
        _add(messages, UpdateType.DELETE, change.removed)
        if partial:
            messages.append((SELECTIVE, open_partial(len(partial), b"".join(partial))))
        _add(messages, UpdateType.UPDATE, whole)
        _add(messages, UpdateType.INSERT, change.added)
        statistics = BatchStatistics(
            tuple(label for label, _ in messages),
            Counter((decision, _shape(decision, one, change)) for decision, one in decided),
            sum(len(one.encoded) for one in in_part) - sum(map(len, partial)) if partial else None,
            0 if change.key_positions else min(len(change.removed), len(change.added)),
        )
        return BinaryBatch(tuple(message for _, message in messages), statistics)


def _add(messages: list[tuple[str, Open]], update: UpdateType, rows: Iterable[bytes]) -> None:
    encoded = tuple(rows)
    if encoded:
        messages.append((TYPE_LABELS[update], open_data(update, len(encoded), b"".join(encoded))))


def _partial_row(updated: UpdatedRow, key_positions: Iterable[int]) -> bytes:
    """V44: the key's columns are always there."""
    values = {position: updated.row[position] for position in {*key_positions, *updated.changed}}
    return encode_partial_row(len(updated.row), values)


def _shape(decision: RowDecision, updated: UpdatedRow, change: Change) -> RowShape:
    changed, columns = len(updated.changed), len(updated.row)
    sent = len({*change.key_positions, *updated.changed}) if decision is RowDecision.PARTIAL else columns
    return RowShape(changed, sent, columns)
