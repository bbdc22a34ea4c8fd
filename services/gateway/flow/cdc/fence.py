"""The fence of decision 28: an answer shows everything that was committed before its call arrived."""

import asyncio
from typing import Protocol

from services.gateway.errors import RpcRefused
from services.gateway.flow.cdc.log import ChangeLog

WITHIN_S = 1.0


class Barriers(Protocol):
    async def emit_barrier(self) -> str: ...


class Fence:
    """One barrier for all that wait when it is begun; who comes later waits for the next."""

    def __init__(self, barriers: Barriers, log: ChangeLog) -> None:
        self._barriers, self._log = barriers, log
        self._next: asyncio.Future[bool] | None = None
        self._running: asyncio.Task[None] | None = None

    async def passed(self, within_s: float = WITHIN_S) -> bool:
        """Whether the log has reached a barrier that was begun after this call."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        waiting = self._next
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())
        try:
            return await asyncio.wait_for(asyncio.shield(waiting), within_s)
        except TimeoutError:
            return False

    async def _run(self) -> None:
        while self._next is not None:
            waiting, self._next = self._next, None
            passed = await self._one()
            if not waiting.done():
                waiting.set_result(passed)

    async def _one(self) -> bool:
        try:
            barrier_id = await asyncio.wait_for(self._barriers.emit_barrier(), WITHIN_S)
        except (RpcRefused, TimeoutError):
            return False
        try:
            await asyncio.wait_for(self._log.barrier(barrier_id), WITHIN_S)
        except TimeoutError:
            return False
        finally:
            self._log.forget_barrier(barrier_id)
        return True
