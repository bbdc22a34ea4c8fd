"""Marks of topics and names of actors on their way from the WAL into the log."""

from proto.positions import Lsn, Seq
from proto.streams.changes import ChangesReader, RowChanged
from proto.streams.topic_marks import ActorNamed, TopicDefined
from services.capture.core.assembly import MOST_ACTOR_BYTES, Assembly, Position
from tests.property import wal
from tests.unit.capture.test_assembly import HEADER, START

SHAPE = wal.relation(1, width=2, identity="d")


def events(*transactions: tuple[wal.Op, ...]) -> list[object]:
    assembly = Assembly(START, row_limit_bytes=1 << 20)
    made = [wal.Transaction(n, 110 + 20 * n, 120 + 20 * n, 0, ops) for n, ops in enumerate(transactions)]
    for message in wal.Walsender(made, 100).more():
        assembly.add(message)
    cut = assembly.cut()
    if cut is None:
        return []
    record = HEADER._record(Position(Lsn(100), Seq(1)))
    record.segment.CopyFrom(cut.segment)
    return list(ChangesReader().feed(record.SerializeToString()))


def told(found: list[object]) -> list[tuple[str, object, int]]:
    wanted = (ActorNamed, TopicDefined, RowChanged)
    return [
        (type(one).__name__, getattr(one, "content", None), one.ordinal) for one in found if isinstance(one, wanted)
    ]


def test_decision_24_an_actor_stands_before_the_next_change_of_its_transaction():
    row, actor = wal.insert(SHAPE, b"x"), wal.message("tidewire.actor", b"ann")
    assert told(events((actor, row, row))) == [
        ("ActorNamed", b"ann", 0),
        ("RowChanged", None, 1),
        ("RowChanged", None, 2),
    ]
    assert told(events((row, actor))) == [("RowChanged", None, 0), ("ActorNamed", b"ann", 1)]
    assert told(events((actor, row), (row,)))[-1] == ("RowChanged", None, 0)


def test_an_actor_alone_is_no_news_and_one_that_is_too_long_or_not_transactional_does_not_count():
    row = wal.insert(SHAPE, b"x")
    assert events((wal.message("tidewire.actor", b"ann"),)) == []
    long = wal.message("tidewire.actor", b"a" * (MOST_ACTOR_BYTES + 1))
    loose = wal.message("tidewire.actor", b"ann", transactional=False)
    foreign = wal.message("tidewire.topics", b'{"topic_id": "app.t"}')
    assert told(events((long, loose, foreign, row))) == [("RowChanged", None, 0)]


def test_a_definition_is_a_mark_of_ours_and_nobody_elses():
    assert told(events((wal.mark("topics", b'{"topic_id": "app.t"}'),))) == [
        ("TopicDefined", b'{"topic_id": "app.t"}', 0)
    ]
