"""Many who ask the catalog at the same moment cost it one question (finding 10)."""

import asyncio

import pytest

from services.gateway.outbound.asked_together import AskedTogether


class Source:
    """Answers when it is let; knows the numbers below a hundred."""

    def __init__(self):
        self.asked, self.may_answer, self.error = [], asyncio.Event(), None

    async def ask(self, keys):
        self.asked.append(sorted(keys))
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return {key: key * 2 for key in keys if key < 100}


async def test_all_who_come_while_one_is_asked_share_the_next_question():
    source = Source()
    together = AskedTogether(source.ask)
    first = asyncio.create_task(together.answer([1]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(together.answer([number, 2])) for number in range(50)]
    await asyncio.sleep(0)
    source.may_answer.set()
    assert await first == {1: 2}
    assert await asyncio.gather(*others) == [{number: number * 2, 2: 4} for number in range(50)]
    # Who came after the first question was put is not answered by it.
    assert source.asked == [[1], list(range(50))]


async def test_what_is_not_known_is_left_out():
    source = Source()
    source.may_answer.set()
    assert await AskedTogether(source.ask).answer([1, 500]) == {1: 2}


async def test_an_error_is_raised_for_each_who_asked_and_not_for_the_next():
    source = Source()
    source.may_answer.set()
    together = AskedTogether(source.ask)
    source.error = RuntimeError("gone")
    answers = await asyncio.gather(together.answer([1]), together.answer([2]), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RuntimeError] * 2
    source.error = None
    assert await together.answer([3]) == {3: 6}


async def test_one_who_leaves_takes_nothing_from_the_others():
    source = Source()
    together = AskedTogether(source.ask)
    leaving, staying = (asyncio.create_task(together.answer([number])) for number in (1, 2))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    source.may_answer.set()
    assert await staying == {2: 4}
