"""When the log may be continued, when a new history must begin, and that no seq is used twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proto.positions import Lsn, Seq
from proto.tidewire.v1.changes_pb2 import (
    HISTORY_BEGIN_DATABASE_REPLACED,
    HISTORY_BEGIN_FIRST_START,
    HISTORY_BEGIN_LOG_LOST_TAIL,
    HISTORY_BEGIN_LOG_REPLACED,
    HISTORY_BEGIN_SLOT_LOST,
)
from services.capture.core.continuity import (
    SEQS_PER_HISTORY,
    BeginHistory,
    Continue,
    Database,
    Ledger,
    Slot,
    Tail,
    judge,
)

DATABASE = Database(system_identifier=7, timeline=1, name="app", flushed_lsn=Lsn(1000))
LEDGER = Ledger(epoch=5, fenced=5, history=2)
SLOT = Slot(confirmed_lsn=Lsn(900), lost=False)
TAIL = Tail(epoch=5, history=2, system_identifier=7, timeline=1, committed_lsn=Lsn(950), committed_seq=Seq(1 << 41))


def verdict(*, tail: Tail | None = TAIL, ledger: Ledger = LEDGER, slot: Slot | None = SLOT, database=DATABASE):
    return judge(tail=tail, ledger=ledger, slot=slot, database=database)


def reason(**found) -> int | None:
    judged = verdict(**found)
    return judged.because if isinstance(judged, BeginHistory) else None


def test_a_log_that_reaches_the_slot_is_continued():
    assert verdict() == Continue(2)


def test_a_tail_exactly_at_the_slot_and_at_the_end_of_the_wal_is_continued():
    assert verdict(slot=replace(SLOT, confirmed_lsn=Lsn(950)), database=replace(DATABASE, flushed_lsn=Lsn(950))) == (
        Continue(2)
    )


def test_the_first_start_begins_history_one_at_seq_one():
    assert verdict(tail=None, ledger=Ledger(epoch=0, fenced=0, history=0), slot=None) == BeginHistory(
        1, Seq(1), HISTORY_BEGIN_FIRST_START, False
    )


BROKEN = {
    "the slot was dropped": ({"slot": None}, HISTORY_BEGIN_SLOT_LOST),
    "the slot was invalidated": ({"slot": replace(SLOT, lost=True)}, HISTORY_BEGIN_SLOT_LOST),
    "another cluster": ({"database": replace(DATABASE, system_identifier=8)}, HISTORY_BEGIN_DATABASE_REPLACED),
    "another timeline": ({"database": replace(DATABASE, timeline=2)}, HISTORY_BEGIN_DATABASE_REPLACED),
    "the WAL ends before the log": (
        {"database": replace(DATABASE, flushed_lsn=Lsn(949))},
        HISTORY_BEGIN_DATABASE_REPLACED,
    ),
    "the database forgot an epoch": (
        {"ledger": Ledger(epoch=4, fenced=4, history=2)},
        HISTORY_BEGIN_DATABASE_REPLACED,
    ),
    "the log is empty": ({"tail": None}, HISTORY_BEGIN_LOG_REPLACED),
    "acknowledged commits are not in the log": (
        {"slot": replace(SLOT, confirmed_lsn=Lsn(951))},
        HISTORY_BEGIN_LOG_LOST_TAIL,
    ),
    "a noted fence is not in the log": ({"ledger": Ledger(epoch=6, fenced=6, history=2)}, HISTORY_BEGIN_LOG_LOST_TAIL),
    "a noted history is not in the log": (
        {"ledger": Ledger(epoch=6, fenced=6, history=3)},
        HISTORY_BEGIN_LOG_LOST_TAIL,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_break_of_continuity_begins_a_history_and_names_the_reason(name):
    found, because = BROKEN[name]
    assert reason(**found) == because


@pytest.mark.parametrize("because", ["the log is empty", "acknowledged commits are not in the log"])
def test_a_slot_that_still_has_what_comes_after_is_kept(because):
    assert verdict(**BROKEN[because][0]).keep_slot


@pytest.mark.parametrize("because", ["the slot was invalidated", "another timeline", "the WAL ends before the log"])
def test_a_slot_that_does_not_prove_continuity_is_created_again(because):
    assert not verdict(**BROKEN[because][0]).keep_slot


def test_an_empty_log_and_a_lost_slot_keep_nothing():
    assert not verdict(tail=None, slot=replace(SLOT, lost=True)).keep_slot


# A takeover reserves the epoch, fences, and notes the fence; it may die behind each step.
RESERVED = Ledger(epoch=6, fenced=5, history=2)


def test_a_takeover_that_died_behind_its_reservation_left_nothing_to_repair():
    assert verdict(ledger=RESERVED) == Continue(2)


def test_a_takeover_that_died_behind_its_fence_is_continued():
    assert verdict(ledger=RESERVED, tail=replace(TAIL, epoch=6)) == Continue(2)


def test_a_new_history_whose_fence_was_not_noted_is_continued():
    began = replace(TAIL, epoch=6, history=3, committed_lsn=SLOT.confirmed_lsn)
    assert verdict(ledger=RESERVED, tail=began) == Continue(3)


def test_a_slot_made_anew_without_a_fence_begins_a_history_at_that_slot():
    made_anew = Slot(confirmed_lsn=Lsn(990), lost=False)
    assert verdict(ledger=RESERVED, slot=made_anew) == BeginHistory(
        3, Seq(2 * SEQS_PER_HISTORY + 1), HISTORY_BEGIN_LOG_LOST_TAIL, True
    )


def test_a_first_start_that_died_before_its_fence_starts_first_again():
    assert reason(tail=None, ledger=Ledger(epoch=1, fenced=0, history=0), slot=SLOT) == HISTORY_BEGIN_FIRST_START


LSNS = st.integers(1, 40).map(Lsn)
EPOCHS = st.integers(0, 6)
HISTORIES = st.integers(0, 4)
TAILS = st.none() | st.builds(
    Tail,
    epoch=EPOCHS,
    history=st.integers(1, 4),
    system_identifier=st.integers(7, 8),
    timeline=st.integers(1, 2),
    committed_lsn=LSNS,
    committed_seq=st.integers(1, 5 * SEQS_PER_HISTORY).map(Seq),
)


@given(
    TAILS,
    st.builds(Ledger, epoch=EPOCHS, fenced=EPOCHS, history=HISTORIES),
    st.none() | st.builds(Slot, confirmed_lsn=LSNS, lost=st.booleans()),
    st.builds(lambda lsn: replace(DATABASE, flushed_lsn=lsn), LSNS),
)
def test_a_new_history_never_takes_a_number_or_a_seq_that_was_used(tail, ledger, slot, database):
    judged = judge(tail=tail, ledger=ledger, slot=slot, database=database)
    if isinstance(judged, BeginHistory):
        assert judged.history > max(tail.history if tail else 0, ledger.history)
        assert judged.first_seq > (tail.committed_seq if tail else 0)
        assert judged.first_seq > ledger.history * SEQS_PER_HISTORY
    else:
        assert slot.confirmed_lsn <= tail.committed_lsn <= database.flushed_lsn
        assert not slot.lost and ledger.fenced <= tail.epoch <= ledger.epoch
