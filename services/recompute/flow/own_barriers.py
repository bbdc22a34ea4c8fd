"""Barriers of our own for requests whose barrier did not come: written beside the loop, one for all who wait."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from structlog.typing import FilteringBoundLogger

from services.recompute.core.live_query import Request


class OwnBarriers:
    """Whatever PostgreSQL says to one, the loop goes on: who waits for it asks again."""

    def __init__(
        self,
        emit: Callable[[], str],
        log: FilteringBoundLogger,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._emit, self._log, self._clock = emit, log, clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="barrier")
        self._writing: Future[str] | None = None
        # Who came before the one that is being written was begun, and who came since.
        self._served: set[Request] = set()
        self._waiting: set[Request] = set()

    def want(self, request: Request) -> None:
        """Called at each turn until the request has a barrier."""
        if request not in self._served:
            self._waiting.add(request)
        if self._writing is not None and self._writing.done():
            self._settle(self._writing)
        if self._writing is None and self._waiting:
            self._served, self._waiting = self._waiting, set()
            self._writing = self._pool.submit(self._emit)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _settle(self, written: "Future[str]") -> None:
        served, self._served, self._writing = self._served, set(), None
        error = written.exception()
        if error is not None:
            self._log.warning("barrier_not_written", reason=str(error)[:500])
            for request in served:
                request.wait_again(self._clock())
            return
        for request in served:
            request.wait_for(written.result())
