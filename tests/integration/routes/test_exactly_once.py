"""Every committed change that matches is in the topic once, in commit order by key, whatever dies or stalls."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from services.recompute.inbound.topic_states import standing
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.waiting import wait_until
from tests.integration.routes.stack import RoutesStack


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Commits of some rows each, without end, in a thread; the ledger is the table itself."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                rows = f"select {number * 100} + n, {number}, repeat('x', 50) from generate_series(1, 20) n"
                connection.execute(f"insert into app.orders {rows}".encode())
                connection.execute("update app.orders set total = -total where id = %s", [number * 100 + 1])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def assert_exactly_once(stack: RoutesStack) -> None:
    stack.settle()
    inserted, updated = [], []
    for number in range(2):
        messages = stack.messages("app.t", number)
        assert [one.offset for one in messages] == list(range(len(messages)))
        assert [(one.lsn, one.ordinal) for one in messages] == sorted((one.lsn, one.ordinal) for one in messages)
        for one in messages:
            (inserted if one.operation == 1 else updated).append(int(one.key))
    held = [row[0] for row in stack.db.execute("select id from app.orders order by id")]
    assert sorted(inserted) == held and len(held) > 500
    negative = [row[0] for row in stack.db.execute("select id from app.orders where total < 0 order by id")]
    assert sorted(updated) == negative


def routed(stack: RoutesStack) -> int:
    found = [standing(stack.kafka, number) for number in range(4)]
    return sum(sum(topic.next_offsets) for one in found for topic in one.topics.values())


def await_progress(stack: RoutesStack) -> None:
    before = routed(stack)
    wait_until(lambda: routed(stack) > before + 100, stack.output)


@contextmanager
def busy(stack: RoutesStack) -> Iterator[None]:
    """A topic of a table that is written to all the time; behind it the writing has stopped."""
    stack.create("app.t", partitions=2)
    stack.route("app.t", "orders", "Insert", "Key")
    stack.route("app.t", "orders", "Update", "Key", filter_expr="(total < 0)")
    with writing(stack.dsn):
        # Behind the first commits: it finds in the log where the routes begin.
        stack.ensure_worker()
        await_progress(stack)
        yield


@pytest.mark.slow
def test_k6_killed_workers_and_a_stopped_replaced_and_woken_one_lose_and_repeat_nothing(stack: RoutesStack):
    chance = random.Random(16)
    with busy(stack):
        for _ in range(2):
            time.sleep(chance.uniform(0.1, 0.7))
            stack.workers[-1].kill()
            stack.start()
            await_progress(stack)
        stalled = stack.workers[-1]
        stalled.halt()
        stack.start()
        await_progress(stack)
        stalled.wake()
        await_progress(stack)
    assert_exactly_once(stack)


@pytest.mark.slow
@pytest.mark.chaos
def test_k6_a_killed_broker_and_capture_lose_and_repeat_nothing(stack: RoutesStack, kafka: KafkaBroker):
    with busy(stack):
        kafka.kill()
        kafka.restart()
        await_progress(stack)
    assert_exactly_once(stack)
