"""A topic that is trimmed, or dropped, while it is read: its reader is told to try again, and finds it anew."""

import pytest

from services.chassis.kafka import Kafka, OffsetOutOfRange, TopicMissing
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound import user_topics
from services.gateway.outbound.user_topic import UserTopicPartition
from services.gateway.outbound.user_topics import UserTopics

made = []


class TrimmedMeanwhile(UserTopicPartition):
    """Kafka has no longer what is asked for, once."""

    error: Exception | None = None

    def __init__(self, kafka, topic_id, partition):
        super().__init__(kafka, topic_id, partition)
        self.closed = 0
        made.append(self)

    def catch_up(self, timeout_s):
        self.next = 10
        return True

    def _read_past(self, first, count):
        if self.closed == 0:
            raise self.error
        return ["read anew"]

    def close(self):
        self.closed += 1
        super().close()


@pytest.mark.asyncio
@pytest.mark.parametrize("error", [OffsetOutOfRange("topic.t", 0, 3), TopicMissing("topic.t", 0)])
async def test_it_is_unavailable_for_a_moment_and_then_read_anew(monkeypatch, error):
    made.clear()
    monkeypatch.setattr(user_topics, "UserTopicPartition", TrimmedMeanwhile)
    monkeypatch.setattr(TrimmedMeanwhile, "error", error)
    topics = UserTopics(Kafka(bootstrap="127.0.0.1:1"), None)
    try:
        with pytest.raises(CursorsUnavailable, match="try again"):
            await topics.read("t", 0, 3, 1)
        assert await topics.read("t", 0, 3, 1) == ["read anew"]
    finally:
        await topics.close()
    assert len(made) == 1
