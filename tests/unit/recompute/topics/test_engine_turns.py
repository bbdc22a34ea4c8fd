"""What a turn of the routes says about itself when it comes to nothing."""

import pytest
import structlog
from prometheus_client import CollectorRegistry

from services.chassis.kafka import Kafka, KafkaUnreachable, OffsetOutOfRange
from services.recompute.flow.topics import engine
from services.recompute.inbound.topic_states import Standing
from services.recompute.metrics import RouteMetrics
from services.recompute.outbound.postgres.topic_sources import NotInstalled


class Member:
    """Of Kafka's group: partition 0 is ours."""

    owned = frozenset({0})

    def keep(self, seconds):
        return None


class Database:
    """Has no topics, or whatever `error` says of it."""

    error: Exception | None = None

    def definitions(self):
        if self.error is not None:
            raise self.error
        return [], "barrier"

    def close(self):
        return None


class NoWriter:
    def __init__(self, kafka, number):
        return None

    def close(self):
        return None


@pytest.fixture
def database():
    return Database()


@pytest.fixture
def routes(database, monkeypatch):
    monkeypatch.setattr(engine, "TopicStates", NoWriter)
    monkeypatch.setattr(engine, "standing", lambda kafka, number: Standing(None, {}))
    # As when the process stops, or the group changes, while the beginning is looked for.
    monkeypatch.setattr(engine, "find_beginning", lambda *found, **keep: None)
    return engine.RoutesEngine(
        Kafka(bootstrap="127.0.0.1:1"),
        Member(),
        database,
        None,
        metrics=RouteMetrics(CollectorRegistry()),
        log=structlog.get_logger(),
        recheck_s=1.0,
    )


def told_by_a_turn(routes):
    with structlog.testing.capture_logs() as told:
        routes.turn()
    return [one["reason"] for one in told if one["event"] == "routes_begin_anew"]


def test_stopping_or_a_rebalance_while_the_beginning_is_looked_for_is_nothing_to_tell(routes):
    assert told_by_a_turn(routes) == []
    assert routes.trouble is None


def test_a_database_without_topics_is_told_and_no_trouble(routes, database):
    database.error = NotInstalled()
    assert told_by_a_turn(routes) == ["the database has no topics yet"]
    assert routes.trouble is None


@pytest.mark.parametrize(
    "error", [KafkaUnreachable("here", "down"), OffsetOutOfRange("changes", 0, 7), TimeoutError("no answer")]
)
def test_trouble_lasts_until_a_turn_goes_well(routes, database, error):
    database.error = error
    assert told_by_a_turn(routes) == [str(error)]
    assert routes.trouble == str(error)
    database.error = None
    routes.turn()
    assert routes.trouble is None
