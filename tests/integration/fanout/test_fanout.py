"""Every delta reaches each gateway that wants it, whichever fanout dies or freezes on the way."""

import os
import signal
import time

import pytest

from proto.partitions import PARTITIONS
from proto.topics import FLOW
from services.chassis.kafka import Kafka, ensure_topics
from tests.fixtures.kafka import start_kafka
from tests.fixtures.waiting import wait_until
from tests.integration.fanout.conftest import FanoutHarness, query_in

GATEWAYS = {"a": 3, "b": 5, "c": 5}
FROZEN_S = 20.0


def settled(harness, queries, count):
    """Whether each gateway has all deltas of each query that it wants."""
    harness.look()
    wanted = list(range(1, count + 1))
    return all(harness.numbers(gateway, query) == wanted for query in queries for gateway in GATEWAYS)


def subscribe_all(harness):
    queries = [query_in(partition) for partition in range(PARTITIONS)]
    for query in queries:
        for gateway, partition in GATEWAYS.items():
            harness.subscribe(query, gateway, partition)
    return queries


def missing(harness, queries):
    return lambda: f"{[[len(harness.numbers(g, q)) for g in GATEWAYS] for q in queries]}\n{harness.tails()}"


def test_a_delta_is_delivered_once_to_each_gateway_in_its_partition(harness):
    queries = subscribe_all(harness)
    fanout = harness.fanout().wait_ready()
    for number in range(1, 21):
        for query in queries:
            harness.change(query, number)
    harness.flush()
    wait_until(lambda: settled(harness, queries, 20), missing(harness, queries))
    assert {gateway: {partition} for gateway, partition in GATEWAYS.items()} == harness.partitions
    assert all(len(harness.arrived[gateway]) == 20 * len(queries) for gateway in GATEWAYS)
    fanout.stop()


def test_what_was_handed_on_is_not_repeated_by_the_next_after_a_good_end(harness):
    queries = subscribe_all(harness)
    first = harness.fanout().wait_ready()
    for query in queries:
        harness.change(query, 1)
    harness.flush()
    wait_until(lambda: settled(harness, queries, 1), missing(harness, queries))
    first.stop()
    harness.fanout().wait_ready()
    for query in queries:
        harness.change(query, 2)
    harness.flush()
    wait_until(lambda: settled(harness, queries, 2), missing(harness, queries))
    assert all(len(harness.arrived[gateway]) == 2 * len(queries) for gateway in GATEWAYS)


def test_a_subscription_that_comes_with_its_first_result_misses_no_later_delta(harness):
    """The record of a subscription is older than its first result; fanout reads it before it goes on."""
    harness.fanout().wait_ready()
    queries = [query_in(number % PARTITIONS) for number in range(40)]
    for query in queries:
        harness.subscribe(query, "a", 3)
        harness.snapshot(query, "a", 3, 1)
        harness.change(query, 2)
    harness.flush()
    wait_until(lambda: harness.look() and all(harness.numbers("a", query) == [2] for query in queries), harness.tails)
    snapshots = [one for one in harness.arrived["a"] if one.delta.HasField("snapshot")]
    assert len(snapshots) == len(queries)


@pytest.mark.parametrize("victim", [0, 1])
def test_kill_9_of_either_of_two_in_the_middle_of_a_stream_loses_nothing(harness, victim):
    queries = subscribe_all(harness)
    fanouts = [harness.fanout(), harness.fanout()]
    for one in fanouts:
        one.wait_ready()
    for number in range(1, 301):
        for query in queries:
            harness.change(query, number)
        if number == 150:
            harness.flush()
            wait_until(lambda: harness.look() and len(harness.numbers("a", queries[0])) > 20, missing(harness, queries))
            fanouts[victim].kill()
    harness.flush()
    wait_until(lambda: settled(harness, queries, 300), missing(harness, queries))


def test_a_second_fanout_takes_its_share_and_gives_it_back(harness):
    queries = subscribe_all(harness)
    first = harness.fanout().wait_ready()
    number = 0

    def more():
        nonlocal number
        number += 1
        for query in queries:
            harness.change(query, number)
        harness.flush()

    more()
    wait_until(lambda: settled(harness, queries, number), missing(harness, queries))
    second = harness.fanout().wait_ready()
    more()
    wait_until(lambda: settled(harness, queries, number), missing(harness, queries))
    second.stop()
    more()
    wait_until(lambda: settled(harness, queries, number), missing(harness, queries))
    assert first.readiness() == (True, "ready")


def test_a_refusal_survives_the_fanout_that_read_it(harness):
    """Nobody can tell whether one that was killed had handed it on: the next does it again, and gateways drop it."""
    query = query_in(2)
    harness.refuse(query, "a", 3, "Rate limited: retry after 5ms")
    harness.fanout().wait_ready()

    def refusals():
        harness.look()
        return [one.subscription.refused.message for one in harness.arrived.get("a", ())]

    wait_until(refusals, harness.tails)
    assert refusals() == ["Rate limited: retry after 5ms"]


@pytest.mark.slow
def test_while_kafka_is_frozen_fanout_waits_and_reports_it(tmp_path, topic_prefix):
    with start_kafka(tmp_path / "kafka") as broker:
        section = Kafka(bootstrap=broker.bootstrap, topic_prefix=topic_prefix)
        ensure_topics(section, FLOW)
        harness = FanoutHarness(section, tmp_path)
        try:
            queries = subscribe_all(harness)
            fanout = harness.fanout().wait_ready()
            for number in range(1, 51):
                for query in queries:
                    harness.change(query, number)
            harness.flush()
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
                harness.change(query, 51)
            harness.flush()
            wait_until(lambda: settled(harness, queries, 51), missing(harness, queries))
            fanout.wait_ready()
        finally:
            harness.end()
