"""Every delta reaches each gateway that wants it, whichever fanout dies or freezes on the way."""

import os
import signal
import time

import pytest

from proto.partitions import PARTITIONS
from proto.topics import FLOW
from services.chassis.kafka import Kafka, ensure_topics
from tests.fixtures.kafka import start_kafka
from tests.integration.fanout.conftest import Road, query_in, wait_until

GATEWAYS = {"a": 3, "b": 5, "c": 5}
FROZEN_S = 20.0


def settled(road, queries, count):
    """Whether each gateway has all deltas of each query that it wants."""
    road.look()
    wanted = list(range(1, count + 1))
    return all(road.numbers(gateway, query) == wanted for query in queries for gateway in GATEWAYS)


def subscribe_all(road):
    queries = [query_in(partition) for partition in range(PARTITIONS)]
    for query in queries:
        for gateway, partition in GATEWAYS.items():
            road.subscribe(query, gateway, partition)
    return queries


def missing(road, queries):
    return lambda: f"{[[len(road.numbers(g, q)) for g in GATEWAYS] for q in queries]}\n{road.tails()}"


def test_a_delta_is_delivered_once_to_each_gateway_in_its_partition(road):
    queries = subscribe_all(road)
    fanout = road.fanout().wait_ready()
    for number in range(1, 21):
        for query in queries:
            road.change(query, number)
    road.flush()
    wait_until(lambda: settled(road, queries, 20), missing(road, queries))
    assert {gateway: {partition} for gateway, partition in GATEWAYS.items()} == road.partitions
    assert all(len(road.arrived[gateway]) == 20 * len(queries) for gateway in GATEWAYS)
    fanout.stop()


def test_what_was_handed_on_is_not_repeated_by_the_next_after_a_good_end(road):
    queries = subscribe_all(road)
    first = road.fanout().wait_ready()
    for query in queries:
        road.change(query, 1)
    road.flush()
    wait_until(lambda: settled(road, queries, 1), missing(road, queries))
    first.stop()
    road.fanout().wait_ready()
    for query in queries:
        road.change(query, 2)
    road.flush()
    wait_until(lambda: settled(road, queries, 2), missing(road, queries))
    assert all(len(road.arrived[gateway]) == 2 * len(queries) for gateway in GATEWAYS)


def test_a_subscription_that_comes_with_its_first_result_misses_no_later_delta(road):
    """The record of a subscription is older than its first result; fanout reads it before it goes on."""
    road.fanout().wait_ready()
    queries = [query_in(number % PARTITIONS) for number in range(40)]
    for query in queries:
        road.subscribe(query, "a", 3)
        road.snapshot(query, "a", 3, 1)
        road.change(query, 2)
    road.flush()
    wait_until(lambda: road.look() and all(road.numbers("a", query) == [2] for query in queries), road.tails)
    snapshots = [one for one in road.arrived["a"] if one.delta.HasField("snapshot")]
    assert len(snapshots) == len(queries)


@pytest.mark.parametrize("victim", [0, 1])
def test_kill_9_of_either_of_two_in_the_middle_of_a_stream_loses_nothing(road, victim):
    queries = subscribe_all(road)
    fanouts = [road.fanout(), road.fanout()]
    for one in fanouts:
        one.wait_ready()
    for number in range(1, 301):
        for query in queries:
            road.change(query, number)
        if number == 150:
            road.flush()
            wait_until(lambda: road.look() and len(road.numbers("a", queries[0])) > 20, missing(road, queries))
            fanouts[victim].kill()
    road.flush()
    wait_until(lambda: settled(road, queries, 300), missing(road, queries))


def test_a_second_fanout_takes_its_share_and_gives_it_back(road):
    queries = subscribe_all(road)
    first = road.fanout().wait_ready()
    number = 0

    def more():
        nonlocal number
        number += 1
        for query in queries:
            road.change(query, number)
        road.flush()

    more()
    wait_until(lambda: settled(road, queries, number), missing(road, queries))
    second = road.fanout().wait_ready()
    more()
    wait_until(lambda: settled(road, queries, number), missing(road, queries))
    second.stop()
    more()
    wait_until(lambda: settled(road, queries, number), missing(road, queries))
    assert first.readiness() == (True, "ready")


def test_a_refusal_survives_the_fanout_that_read_it(road):
    """Nobody can tell whether one that was killed had handed it on: the next does it again, and gateways drop it."""
    query = query_in(2)
    road.refuse(query, "a", 3, "Rate limited: retry after 5ms")
    road.fanout().wait_ready()

    def refusals():
        road.look()
        return [one.subscription.refused.message for one in road.arrived.get("a", ())]

    wait_until(refusals, road.tails)
    assert refusals() == ["Rate limited: retry after 5ms"]


@pytest.mark.slow
def test_a_kafka_that_freezes_is_waited_for_and_said(tmp_path, topic_prefix):
    with start_kafka(tmp_path / "kafka") as broker:
        section = Kafka(bootstrap=broker.bootstrap, topic_prefix=topic_prefix)
        ensure_topics(section, FLOW)
        road = Road(section, tmp_path)
        try:
            queries = subscribe_all(road)
            fanout = road.fanout().wait_ready()
            for number in range(1, 51):
                for query in queries:
                    road.change(query, number)
            road.flush()
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                thaw_s = time.monotonic() + FROZEN_S
                wait_until(lambda: not fanout.readiness()[0], fanout.tail)
                while time.monotonic() < thaw_s:
                    assert not fanout.readiness()[0]
                    time.sleep(0.2)
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            for query in queries:
                road.change(query, 51)
            road.flush()
            wait_until(lambda: settled(road, queries, 51), missing(road, queries))
            fanout.wait_ready()
        finally:
            road.end()
