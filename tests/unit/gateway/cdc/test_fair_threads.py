"""Prepared queries of one role leave threads for the others."""

import asyncio
import threading

import pytest

from services.gateway.core.fair_queue import QueueFull
from services.gateway.outbound.fair_threads import FairThreads


@pytest.fixture
def threads():
    made = FairThreads("test", at_once=4, at_once_a_role=2, waiting_a_role=3)
    yield made
    made.close()


async def test_a_role_that_fills_its_queue_does_not_hold_up_another(threads):
    going_on = threading.Event()
    crowd = [asyncio.create_task(threads.run("hostile", going_on.wait)) for _ in range(5)]
    await asyncio.sleep(0)
    with pytest.raises(QueueFull):
        await threads.run("hostile", going_on.wait)
    try:
        assert await asyncio.wait_for(threads.run("other", lambda: 7), 10) == 7
        assert not any(task.done() for task in crowd)
    finally:
        going_on.set()
    assert await asyncio.gather(*crowd) == [True] * 5


async def test_what_a_call_raises_is_raised_where_it_was_asked(threads):
    with pytest.raises(ZeroDivisionError):
        await threads.run("role", lambda: 1 // 0)
    assert await threads.run("role", lambda: 1) == 1


async def test_a_call_whose_asker_left_is_not_begun(threads):
    going_on, ran = threading.Event(), []
    crowd = [asyncio.create_task(threads.run("role", going_on.wait)) for _ in range(2)]
    late = asyncio.create_task(threads.run("role", lambda: ran.append(1)))
    await asyncio.sleep(0)
    late.cancel()
    going_on.set()
    await asyncio.gather(*crowd)
    assert await threads.run("role", lambda: 2) == 2
    assert ran == []
