"""Ordinary trouble of Kafka and Redis: a run fails and is told of, and retention lives."""

import pytest
import redis
import structlog
from prometheus_client import CollectorRegistry

from proto.positions import Seq
from proto.streams.changes import GapInChanges
from services.chassis import health
from services.chassis.kafka import Kafka, KafkaUnreachable, OffsetOutOfRange, TopicMissing
from services.retention.__main__ import attempt
from services.retention.inbound import changes
from services.retention.metrics import Metrics

TROUBLES = [
    KafkaUnreachable("here", "down"),
    OffsetOutOfRange("changes", 0, 7),
    TopicMissing("changes", 0),
    GapInChanges(Seq(7), Seq(9)),
    TimeoutError("no answer for offset 7"),
    redis.ConnectionError("refused"),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda error: type(error).__name__)
def test_a_run_that_fails_is_told_of_and_the_next_one_makes_it_good(trouble):
    progress, registry = health.Progress(), CollectorRegistry()
    metrics = Metrics(registry)

    def fail():
        raise trouble

    with structlog.testing.capture_logs() as told:
        attempt(fail, progress, metrics, structlog.get_logger())
    assert progress.state() == (False, str(trouble))
    assert [(one["event"], one["reason"]) for one in told] == [("run_failed", str(trouble))]
    attempt(lambda: None, progress, metrics, structlog.get_logger())
    assert progress.state() == (True, "ready")


def test_a_broker_that_is_away_is_unreachable_also_when_a_moment_is_asked_for(monkeypatch):
    monkeypatch.setattr(changes, "TIMEOUT_S", 0.2)
    with pytest.raises(KafkaUnreachable):
        changes.ChangesExtent(Kafka(bootstrap="127.0.0.1:1")).offset_at(0)
