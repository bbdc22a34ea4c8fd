"""Whole results of registered queries: one request for all who wait, and none that is older than the call (P35)."""

import asyncio

import pytest

from proto.tidewire.v1.notifications_pb2 import ResultPart
from services.gateway.flow.notify.results import Results


class Asked:
    gateway_id = "me"

    def __init__(self):
        self.requests = []

    def ask(self, query_id, gen, number):
        self.requests.append((query_id, gen, number))


def part(number, rows, seq, *, index=0, last=True):
    return ResultPart(query_id="q", gen=1, seq=seq, rows=rows, part=index, last=last, answers={"me": number})


async def waiting(results, count):
    tasks = [asyncio.create_task(results.fetch("q", 1)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


@pytest.mark.asyncio
async def test_who_comes_while_a_request_is_under_way_waits_for_the_next():
    asked = Asked()
    results = Results(asked, wait_s=5.0)
    (first,) = await waiting(results, 1)
    later = await waiting(results, 3)
    results.arrived(part(1, b'{"id":1}', 5, last=False))
    results.arrived(part(1, b'{"id":2}', 5, index=1))
    assert ((await first).seq, (await first).rows) == (5, b'{"id":1},{"id":2}')
    assert not any(one.done() for one in later)
    results.arrived(part(1, b"", 5))
    results.arrived(part(2, b"", 6))
    assert [(await one).seq for one in later] == [6, 6, 6]
    assert asked.requests == [("q", 1, 1), ("q", 1, 2)]


@pytest.mark.asyncio
async def test_another_gateways_answer_and_a_part_without_its_beginning_count_for_nothing():
    results = Results(Asked(), wait_s=0.05)
    (first,) = await waiting(results, 1)
    results.arrived(ResultPart(query_id="q", gen=1, seq=5, last=True, answers={"other": 1}))
    results.arrived(part(1, b"x", 5, index=1))
    with pytest.raises(TimeoutError):
        await first
