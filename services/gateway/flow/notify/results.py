"""Whole results of registered queries: one request for all who wait, each answer with the seq that it belongs to.

Who comes while a request is under way waits for the next one: the answer under way may be older than its call, and so
older than what another gateway has told it.
"""

import asyncio
import itertools
from typing import Protocol, TypeAlias

from msgspec import Struct

from proto.tidewire.v1.notifications_pb2 import ResultPart

ASK_AGAIN_S = 2.0


class WholeResult(Struct, frozen=True):
    """`rows`: JSON objects with commas between them."""

    gen: int
    seq: int
    rows: bytes


class Asks(Protocol):
    gateway_id: str

    def ask(self, query_id: str, gen: int, number: int) -> None: ...


Key: TypeAlias = tuple[str, int]


class _UnderWay:
    """A request, those whom its answer is for, those for whom the next one is, and the parts that came."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: list[asyncio.Future[WholeResult]] = []
        self.later: list[asyncio.Future[WholeResult]] = []
        self.parts: list[bytes] = []


class Results:
    def __init__(self, requests: Asks, *, wait_s: float) -> None:
        self._requests, self._wait_s = requests, wait_s
        self._numbers = itertools.count(1)
        self._under_way: dict[Key, _UnderWay] = {}

    async def fetch(self, query_id: str, gen: int) -> WholeResult:
        """A state not older than anything that was told before this call. Raises TimeoutError."""
        key = query_id, gen
        future: asyncio.Future[WholeResult] = asyncio.get_running_loop().create_future()
        under_way = self._under_way.get(key)
        if under_way is None:
            self._begin(key, [future])
        else:
            under_way.later.append(future)
        async with asyncio.timeout(self._wait_s):
            return await future

    def arrived(self, part: ResultPart) -> None:
        """A part of an answer, whoever asked for it."""
        key = part.query_id, part.gen
        under_way = self._under_way.get(key)
        if under_way is None or part.answers.get(self._requests.gateway_id) != under_way.number:
            return
        if part.part == 0:
            under_way.parts = []
        elif part.part != len(under_way.parts):
            return
        under_way.parts.append(part.rows)
        if part.last:
            del self._under_way[key]
            for future in under_way.waiting:
                if not future.done():
                    future.set_result(WholeResult(part.gen, part.seq, b",".join(under_way.parts)))
            self._begin(key, under_way.later)

    async def ask_again(self) -> None:
        """Until cancelled: a request may have come to a worker that ended."""
        while True:
            await asyncio.sleep(ASK_AGAIN_S)
            for key, under_way in list(self._under_way.items()):
                if any(not future.done() for future in (*under_way.waiting, *under_way.later)):
                    self._requests.ask(*key, under_way.number)
                else:
                    del self._under_way[key]

    def _begin(self, key: Key, waiting: list[asyncio.Future[WholeResult]]) -> None:
        if any(not future.done() for future in waiting):
            self._under_way[key] = begun = _UnderWay(next(self._numbers))
            begun.waiting = waiting
            self._requests.ask(*key, begun.number)
