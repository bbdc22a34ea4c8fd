"""Whether the log can be continued, or a new history must begin, and why."""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from proto.positions import Lsn, Seq
from proto.tidewire.v1.changes_pb2 import (
    HISTORY_BEGIN_DATABASE_REPLACED,
    HISTORY_BEGIN_FIRST_START,
    HISTORY_BEGIN_LOG_LOST_TAIL,
    HISTORY_BEGIN_LOG_REPLACED,
    HISTORY_BEGIN_SLOT_LOST,
    HistoryBegin,
)

# Each history has its own range of seq, so that a position is never used twice even if the log is gone. 2^40 changes
# are three years at 10,000 a second, and 8,000 histories still are exact numbers in JSON.
SEQS_PER_HISTORY = 1 << 40


class Database(Struct, frozen=True, kw_only=True):
    """What PostgreSQL says of itself."""

    system_identifier: int
    timeline: int
    name: str
    flushed_lsn: Lsn


class Ledger(Struct, frozen=True, kw_only=True):
    """The epochs recorded in the database: the highest reserved one, and the highest whose fence is in the log."""

    epoch: int
    fenced: int
    history: int


class Slot(Struct, frozen=True, kw_only=True):
    confirmed_lsn: Lsn
    lost: bool


class Tail(Struct, frozen=True, kw_only=True):
    """The content of the last valid record of the log."""

    epoch: int
    history: int
    system_identifier: int
    timeline: int
    committed_lsn: Lsn
    committed_seq: Seq


class Continue(Struct, frozen=True):
    """Go on behind the tail."""

    history: int


class BeginHistory(Struct, frozen=True):
    """Continuity is not proven: a new history begins, and readers load everything again."""

    history: int
    first_seq: Seq
    because: HistoryBegin
    keep_slot: bool

    def numbered(self, history: int) -> "BeginHistory":
        """The same under the number that was reserved, which is at least the one judged."""
        return replace(self, history=history, first_seq=Seq(max((history - 1) * SEQS_PER_HISTORY + 1, self.first_seq)))


Continuity: TypeAlias = Continue | BeginHistory


def judge(*, tail: Tail | None, ledger: Ledger, slot: Slot | None, database: Database) -> Continuity:
    because = _break(tail=tail, ledger=ledger, slot=slot, database=database)
    if because is None:
        assert tail is not None
        return Continue(tail.history)
    history = max(tail.history if tail else 0, ledger.history) + 1
    used = tail.committed_seq if tail else 0
    first_seq = Seq(max((history - 1) * SEQS_PER_HISTORY, used) + 1)
    # A slot that stands where the log was lost still has what comes after; any other is made anew.
    keep_slot = (
        because in (HISTORY_BEGIN_LOG_REPLACED, HISTORY_BEGIN_LOG_LOST_TAIL) and slot is not None and not slot.lost
    )
    return BeginHistory(history, first_seq, because, keep_slot)


def _break(*, tail: Tail | None, ledger: Ledger, slot: Slot | None, database: Database) -> HistoryBegin | None:
    if tail is None:
        return HISTORY_BEGIN_FIRST_START if ledger.fenced == 0 else HISTORY_BEGIN_LOG_REPLACED
    same_cluster = (tail.system_identifier, tail.timeline) == (database.system_identifier, database.timeline)
    # The epoch is noted in the database before it is used, so a log that is ahead tells a database that was set back.
    if not same_cluster or ledger.epoch < tail.epoch or database.flushed_lsn < tail.committed_lsn:
        return HISTORY_BEGIN_DATABASE_REPLACED
    if slot is None or slot.lost:
        return HISTORY_BEGIN_SLOT_LOST
    # PostgreSQL is told only of what Kafka has, so a slot that is ahead tells a log that lost its tail.
    if slot.confirmed_lsn > tail.committed_lsn or ledger.fenced > tail.epoch or ledger.history > tail.history:
        return HISTORY_BEGIN_LOG_LOST_TAIL
    return None
