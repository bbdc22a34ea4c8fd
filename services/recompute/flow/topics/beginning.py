"""Where the routes begin when nobody has followed the log for them: the start of the history, or the first topic in it.

The definitions of now are compared with the marks in the log: a topic without a mark is as old as the history, one with
marks begins at its first. So a route made while no worker was there sees every change after it.
"""

from collections.abc import Callable

from msgspec import Struct

from proto.streams.changes import BarrierPassed, Committed, HistoryBegan
from proto.streams.topic_marks import TopicDefined
from services.changelog.follower import ChangesFollower
from services.recompute.core.topics.definition import Definition, read_mark
from services.recompute.core.topics.position import Position

READ_S = 0.2


class Beginning(Struct, frozen=True):
    position: Position
    definitions: dict[str, Definition]


def find_beginning(
    follower: ChangesFollower, current: list[Definition], barrier_id: str, *, keep: Callable[[], bool]
) -> Beginning | None:
    """Reads the log up to the barrier that was written after `current` was read; None if `keep` says no meanwhile."""
    follower.rows_of(lambda oid: False)
    follower.from_earliest()
    start: Position | None = None
    last: Position | None = None
    first_mark: Position | None = None
    marked: set[str] = set()
    while keep():
        for event in follower.read(READ_S):
            if start is None or isinstance(event, HistoryBegan):
                start = last = _here(follower)
                first_mark, marked = None, set()
            if isinstance(event, TopicDefined):
                marked.add(read_mark(event.content).topic_id)
                first_mark = first_mark or last
            elif isinstance(event, Committed):
                last = Position(history=follower.reader.history, lsn=event.commit_lsn, first_seq=event.next_seq)
            elif isinstance(event, BarrierPassed) and event.barrier_id == barrier_id:
                assert start is not None and last is not None
                older = {one.topic_id: one for one in current if one.topic_id not in marked}
                return Beginning(start if older else first_mark or last, older)
    return None


def _here(follower: ChangesFollower) -> Position:
    """Before everything that the reader has still to give."""
    reader = follower.reader
    return Position(
        history=reader.history, lsn=max(reader.committed_lsn - 1, 0), first_seq=max(reader.committed_seq, 1)
    )
