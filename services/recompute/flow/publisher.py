"""What readers are told: deltas, whole results for those who asked, and errors."""

import time
from collections.abc import Callable, Iterable

from proto.tidewire.v1.deltas_pb2 import Delta
from services.chassis.postgres import PostgresUnreachable
from services.recompute.core.emitted import Answered
from services.recompute.core.live import Failure, LiveQuery, Request
from services.recompute.core.result import Position, error_delta, failed_at
from services.recompute.inbound.changes import CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas


class Telling:
    """Writes to `deltas` in the name of the queries."""

    def __init__(
        self,
        deltas: Deltas,
        log: CommitLog,
        metrics: Metrics,
        *,
        emit_barrier: Callable[[], str],
        barrier_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deltas, self._log, self._metrics = deltas, log, metrics
        self._emit_barrier, self._barrier_wait_s, self._clock = emit_barrier, barrier_wait_s, clock
        self.answered = Answered()

    def tell(self, deltas: Iterable[Delta]) -> None:
        self._metrics.deltas.inc(self._deltas.append(deltas))

    def fail(self, live: LiveQuery, failure: Failure, at: Position | None = None) -> None:
        """The query has no result for now; those who had one learn why, once. `at`: the data that it fails on."""
        live.failure_at = at
        if failure.same_as(live.failure):
            return
        live.suspend()
        live.failure = failure
        if live.told is not None:
            error = self._error(live, failure, at or self._log.position)
            self.tell([error])
            live.told = failed_at(error)

    def answer(self, live: LiveQuery, *, is_current: bool) -> None:
        """Whole results for those who asked and whose barrier the log has passed.

        `is_current`: the result is the state at the place where the log stands.
        """
        for request_id, request in list(live.requests.items()):
            barrier_lsn = self._barrier_lsn(request)
            if live.failure is not None:
                at = self._fails_at(live, barrier_lsn, is_current=is_current)
                if at is None:
                    continue
                error = self._error(live, live.failure, at)
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, [error]))
                # Whoever stands at an error is told the next good state.
                live.told = failed_at(error)
            elif live.result is None or barrier_lsn is None:
                continue
            elif is_current:
                # Readers who stand at an earlier commit must be able to go on together with this one.
                self.tell(live.result.progress(self._log.position))
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, live.result.whole()))
            elif live.result.position.lsn >= barrier_lsn:
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, live.result.whole()))
            else:
                continue
            del live.requests[request_id]
            self.answered.add(request_id)

    def _barrier_lsn(self, request: Request) -> int | None:
        """Where the barrier of the request, or one behind it, stands in the log; None while it does not."""
        if not request.wanted.barrier_id:
            return 0
        barriers = self._log.barriers
        found = barriers.get(request.wanted.barrier_id) or barriers.get(request.own_barrier or "")
        if found is None and request.own_barrier is None and self._clock() - request.since_s > self._barrier_wait_s:
            # It may have passed before we began to read; one that we emit now is behind it in any case.
            try:
                request.own_barrier = self._emit_barrier()
            except PostgresUnreachable:
                request.since_s = self._clock()
        return found

    def _fails_at(self, live: LiveQuery, barrier_lsn: int | None, *, is_current: bool) -> Position | None:
        """Where one who asked for the state behind a barrier is told the failure; None: the data may have recovered."""
        if live.failure_at is None:
            return self._log.position
        if barrier_lsn is None:
            return None
        if live.is_by_postgres and is_current:
            return self._log.position
        return live.failure_at if live.failure_at.lsn >= barrier_lsn else None

    def _error(self, live: LiveQuery, failure: Failure, at: Position) -> Delta:
        position = at if live.told is None else live.told.next_position(at)
        return error_delta(live.id, self._log.history, position, failure.sqlstate, failure.message)
