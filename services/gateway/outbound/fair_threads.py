"""Threads that roles take turns on: none has all of them, nor an endless queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from msgspec import Struct

from services.gateway.core.fair_queue import FairQueue

T = TypeVar("T")


class _Job(Struct, frozen=True):
    run: Callable[[], Any]
    answer: asyncio.Future[Any]


class FairThreads:
    """Used by one event loop."""

    def __init__(self, name: str, *, at_once: int, at_once_a_role: int, waiting_a_role: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._turns: FairQueue[_Job] = FairQueue(
            at_once=at_once, at_once_a_login=at_once_a_role, waiting_a_login=waiting_a_role
        )
        self._is_closed = False

    async def run(self, role: str, call: Callable[[], T]) -> T:
        """What the call gives, when it is this role's turn; QueueFull if too many of it wait."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._turns.add(role, _Job(call, answer))
        self._begin()
        return await answer

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_closed and (turn := self._turns.take()) is not None:
            role, job = turn
            if job.answer.done():  # whoever asked has left
                self._turns.done(role)
                continue
            running = self._threads.submit(job.run)
            running.add_done_callback(
                lambda done, role=role, job=job: loop.call_soon_threadsafe(self._done, role, job, done)  # type: ignore[misc]
            )

    def _done(self, role: str, job: _Job, done: "Future[Any]") -> None:
        self._turns.done(role)
        if not job.answer.done():
            if done.cancelled():
                job.answer.cancel()
            elif (error := done.exception()) is not None:
                job.answer.set_exception(error)
            else:
                job.answer.set_result(done.result())
        self._begin()
