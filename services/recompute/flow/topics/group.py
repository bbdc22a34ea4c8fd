"""The topics of one partition of `topic_states`: their routes, offsets and position, and the step on."""

from collections.abc import Iterable, Mapping

from proto.tidewire.v1.topic_states_pb2 import TopicState, TopicStateRecord
from proto.tidewire.v1.user_topics_pb2 import TopicMessage
from services.recompute.core.topics.definition import (
    Definition,
    Route,
    RouteIndex,
    group_of,
    read_definition,
    write_definition,
)
from services.recompute.core.topics.position import Position
from services.recompute.core.topics.routing import Candidate, Routing
from services.recompute.core.topics.source_table import SourceTables
from services.recompute.inbound.topic_states import Standing
from services.recompute.outbound.topic_states import POSITION_KEY, TopicStates
from services.recompute.outbound.user_topics import Record, UserTopics, record_of


class TopicGroup:
    """One worker has it at a time; everything that it knows stands on the topic before anybody relies on it."""

    def __init__(self, number: int, writer: TopicStates, user_topics: UserTopics, standing: Standing) -> None:
        self.number, self._writer, self._user_topics = number, writer, user_topics
        self.definitions: dict[str, Definition] = {}
        self._next_offsets: dict[str, list[int]] = {}
        for topic_id, state in standing.topics.items():
            self.definitions[topic_id] = read_definition(state.definition)
            self._next_offsets[topic_id] = list(state.next_offsets)
        # What has been taken in; `written` is what is on the topic.
        self.position = None if standing.position is None else Position.of(standing.position)
        self.written = self.position
        self.written_s = 0.0
        self.candidates: list[Candidate] = []
        self._marks: list[TopicMessage] = []
        self._touched: set[str] = set()
        self._dropped: set[str] = set()
        self.routing = Routing(RouteIndex(()), SourceTables())

    @property
    def routes(self) -> list[Route]:
        return [route for definition in self.definitions.values() for route in definition.routes]

    @property
    def has_news(self) -> bool:
        return bool(self.candidates or self._marks or self._touched or self._dropped)

    def is_before(self, place: Position) -> bool:
        """Whether what stands there has not been taken in."""
        return self.position is not None and not self.position.covers(place.history, place.lsn, place.ordinal)

    def take(self, candidates: Iterable[Candidate], position: Position) -> None:
        """Everything up to the position; what it may become is judged when it is written."""
        self.candidates += candidates
        self.position = position

    def begin_anew(self) -> None:
        """The log that the position was in is gone."""
        self.position = None

    def begin(self, position: Position, definitions: Mapping[str, Definition]) -> None:
        """Where nobody has been before, or where a history began: the topics as the database has them."""
        self.position = position
        for topic_id in self.definitions.keys() - definitions.keys():
            self.define(topic_id, None)
        for topic_id, definition in definitions.items():
            if group_of(topic_id) == self.number:
                self.define(topic_id, definition)

    def define(self, topic_id: str, definition: Definition | None) -> None:
        """From the next commit on; flush before a topic is cleared, so that its mark stands behind its messages."""
        held = self.definitions.get(topic_id)
        if definition is None:
            if self.definitions.pop(topic_id, None) is not None:
                self._next_offsets.pop(topic_id)
                self._touched.discard(topic_id)
                self._dropped.add(topic_id)
            return
        self.definitions[topic_id] = definition
        self._touched.add(topic_id)
        offsets = self._next_offsets.setdefault(topic_id, [0] * definition.partitions)
        if held is None or held.cleared_generation != definition.cleared_generation:
            self._marks += [
                TopicMessage(topic_id=topic_id, partition=number, offset=offset)
                for number, offset in enumerate(offsets)
            ]

    def use(self, sources: SourceTables) -> None:
        self.routing = Routing(RouteIndex(self.definitions.values()), sources)

    def write(self, matched: Iterable[Candidate], now_us: int, now_s: float) -> int:
        """Write the messages and where the group stands, in one transaction; how many messages it were."""
        marks, self._marks = self._marks, []
        self._user_topics.ensure((mark.topic_id, self.definitions[mark.topic_id].partitions) for mark in marks)
        records = [record_of(mark) for mark in marks]
        messages = self._numbered(matched)
        records += messages
        assert self.position is not None
        position = TopicStateRecord(position=self.position.record(now_us))
        states: list[tuple[bytes, bytes | None]] = [(POSITION_KEY, position.SerializeToString())]
        states += [(topic_id.encode(), self._state(topic_id)) for topic_id in sorted(self._touched)]
        states += [(topic_id.encode(), None) for topic_id in sorted(self._dropped)]
        self._writer.write(records, states)
        for topic_id in self._dropped:
            self._user_topics.drop(topic_id)
        self.candidates, self._touched, self._dropped = [], set(), set()
        self.written, self.written_s = self.position, now_s
        return len(messages)

    def close(self) -> None:
        self._writer.close()

    def _numbered(self, matched: Iterable[Candidate]) -> list[Record]:
        records = []
        for candidate in matched:
            topic_id = candidate.definition.topic_id
            offsets = self._next_offsets.get(topic_id)
            if offsets is None:
                continue  # dropped by a later commit of this step
            message = self.routing.message(candidate, offsets)
            offsets[message.partition] += 1
            self._touched.add(topic_id)
            records.append(record_of(message))
        return records

    def _state(self, topic_id: str) -> bytes:
        state = TopicState(
            topic_id=topic_id,
            definition=write_definition(self.definitions[topic_id]),
            next_offsets=self._next_offsets[topic_id],
        )
        return TopicStateRecord(topic=state).SerializeToString()
