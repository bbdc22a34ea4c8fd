"""When the port is told to stop, requests under way end and no new ones begin; too slow ones are broken off."""

import asyncio
import threading

import pytest
from fastapi import APIRouter

from tests.fixtures.waiting import wait_until


class Waiting:
    """A route that answers when the test says so."""

    def __init__(self):
        self.router = APIRouter()
        self.begun, self.loop, self.go_on = threading.Event(), None, None

        @self.router.get("/waits")
        async def waits():
            self.loop, self.go_on = asyncio.get_running_loop(), asyncio.Event()
            self.begun.set()
            await self.go_on.wait()
            return {"done": True}


@pytest.fixture
def asked(http_port):
    """A port that is asked something slow, the door behind it, and the place of the answer."""
    door, answers = Waiting(), []
    port = http_port(doors=(door,), drain_s=1, free_failures=100)

    def ask():
        try:
            answers.append(port.ask("/waits"))
        except OSError as error:
            answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert door.begun.wait(10)
    yield port, door, answers
    thread.join(10)


def test_a_request_under_way_ends_and_readiness_tells_of_the_drain(asked):
    port, door, answers = asked
    assert port.progress.state() == (True, "ready")
    port.stop()
    wait_until(lambda: port.progress.state() == (False, "HTTP port: draining"), port.progress.state)
    with pytest.raises(OSError):
        wait_until(lambda: port.ask("/nothing") is None, "the port is closed", 5)
    door.loop.call_soon_threadsafe(door.go_on.set)
    assert port.ended.wait(10)
    wait_until(lambda: answers, "the answer")
    assert answers[0].body == {"done": True}


def test_a_request_that_outlasts_the_drain_is_broken_off(asked):
    port, _, answers = asked
    port.stop()
    assert port.ended.wait(10)
    wait_until(lambda: answers, "the end of the request")
    assert (answers[0].status, answers[0].code) == (503, "unavailable")
