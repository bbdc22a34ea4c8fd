"""Base loads beside the loop: each in a thread, handed over when the log has reached its barrier."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from services.recompute.core.tracking import Commits, LiveTable
from services.recompute.errors import RelationMissing
from services.recompute.inbound.base import Base, Source

PARALLEL_LOADS = 2


class Loading:
    """The tables whose rows are on the way."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pool = ThreadPoolExecutor(PARALLEL_LOADS, thread_name_prefix="base")
        self._futures: dict[int, tuple[LiveTable, Future[Base]]] = {}

    def begin(self, live: LiveTable, commits: Commits) -> None:
        live.begin_load(commits)
        table = live.table
        self._futures[table.oid] = (live, self._pool.submit(self._source.load, table.oid, table.name))

    def forget(self, oid: int) -> None:
        self._futures.pop(oid, None)

    def finished(self, passed_barriers: dict[str, int]) -> Iterator[tuple[LiveTable, Base | RelationMissing]]:
        """The loads whose barrier the log has passed, or whose table is gone; other failures are raised."""
        for oid, (live, future) in list(self._futures.items()):
            if not future.done():
                continue
            error = future.exception()
            if isinstance(error, RelationMissing):
                del self._futures[oid]
                yield live, error
                continue
            base = future.result()
            if base.barrier_id in passed_barriers:
                del self._futures[oid]
                yield live, base

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
