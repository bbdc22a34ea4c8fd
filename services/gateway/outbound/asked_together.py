"""Questions that come while one is under way, asked together in the next."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Round(Struct, Generic[K, V]):
    keys: set[K]
    answer: asyncio.Future[Mapping[K, V]]


class AskedTogether(Generic[K, V]):
    """However many ask, one question is under way; each answer is of a moment after its asker came."""

    def __init__(self, ask: Callable[[list[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._ask = ask
        self._next: _Round[K, V] | None = None
        self._running: asyncio.Task[None] | None = None

    async def answer(self, keys: Iterable[K]) -> dict[K, V]:
        """For those of these keys that there is an answer for; raises what the question raised."""
        wanted = set(keys)
        if self._next is None:
            self._next = _Round(set(), asyncio.get_running_loop().create_future())
        asked = self._next
        asked.keys |= wanted
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())
        found = await asyncio.shield(asked.answer)
        return {key: found[key] for key in wanted if key in found}

    async def _run(self) -> None:
        while self._next is not None:
            asked, self._next = self._next, None
            try:
                asked.answer.set_result(await self._ask(list(asked.keys)))
            except Exception as error:  # whatever it is, it is for those who asked
                asked.answer.set_exception(error)
                asked.answer.exception()  # they may have left
