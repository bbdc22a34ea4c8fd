"""The end of the log, read from as little of it as possible."""

from proto.positions import Lsn, Seq
from proto.streams.fencing import Writer
from proto.tidewire.v1.changes_pb2 import Fence
from services.capture.core.assembly import Position
from services.capture.core.continuity import Ledger
from services.capture.core.records import Header
from services.capture.core.tail import TailRecord, fold, fold_from


def log(*epochs: str) -> list[TailRecord]:
    """Each record by its epoch: `f3` a fence, `3` a heartbeat; a record's LSN is ten times its offset."""
    entries = []
    for offset, word in enumerate(epochs):
        epoch = int(word.removeprefix("f"))
        header = Header(identity=Writer(epoch, epoch), history=1, system_identifier=7, timeline=1)
        position = Position(Lsn(10 * offset), Seq(1))
        record = header.fence(Fence(), position) if word[0] == "f" else header.heartbeat(position, 0)
        entries.append(TailRecord(offset, record.SerializeToString(), record))
    return entries


def tail_of(entries: list[TailRecord], ledger: Ledger, noted_offset: int = 0, low: int = 0) -> tuple[int, int]:
    """Epoch and LSN of the last record in force."""
    start = fold_from(lambda start, end: entries[start:end], ledger, noted_offset, low, len(entries))
    tail, in_force = fold(entries[start:])
    assert tail.epoch == in_force.epoch
    return tail.epoch, tail.committed_lsn


def test_records_of_a_fenced_off_writer_at_the_end_do_not_count():
    entries = log("f1", "1", "f2", "2", *["1"] * 20)
    assert tail_of(entries, Ledger(epoch=2, fenced=2, history=1), noted_offset=2) == (2, 30)


def test_the_search_stops_at_the_first_record_that_is_certainly_in_force():
    entries = log("f1", *["1"] * 100, "f2", *["2"] * 100)
    read = []

    def stretch(start: int, end: int) -> list[TailRecord]:
        read.extend(range(start, end))
        return entries[start:end]

    fold_from(stretch, Ledger(epoch=2, fenced=2, history=1), 101, 0, len(entries))
    assert len(read) < 20


def test_a_fence_that_was_not_noted_is_found():
    entries = log("f1", "1", "f2", *["1"] * 20)
    assert tail_of(entries, Ledger(epoch=2, fenced=1, history=1), noted_offset=0) == (2, 20)


def test_a_database_that_was_set_back_does_not_hide_the_highest_fence():
    entries = log("f1", "1", "f5", "5", "f7", "7", *["5"] * 20)
    assert tail_of(entries, Ledger(epoch=3, fenced=3, history=1), noted_offset=2) == (7, 50)


def test_a_log_that_lost_the_noted_fence_shows_the_writer_before():
    entries = log("f1", "1", "1")
    assert tail_of(entries, Ledger(epoch=2, fenced=2, history=1), noted_offset=9) == (1, 20)


def test_a_trimmed_log_is_read_from_what_is_left():
    entries = log("f1", "1", "f2", "2", "2")
    assert tail_of(entries, Ledger(epoch=3, fenced=2, history=1), noted_offset=2, low=4) == (2, 40)
