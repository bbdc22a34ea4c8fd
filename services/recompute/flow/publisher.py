"""Publishes deltas, whole results for requests, and errors."""

import time
from collections.abc import Callable, Iterable, Sequence

from proto.rows import ResultRow
from proto.tidewire.v1.deltas_pb2 import Delta
from services.recompute.core.emitted import Answered
from services.recompute.core.live_query import Failure, LiveQuery, Request
from services.recompute.core.result import Position, error_delta
from services.recompute.errors import is_of_the_process
from services.recompute.flow.failures import Failures, failure_of
from services.recompute.flow.own_barriers import OwnBarriers
from services.recompute.inbound.changes import CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas


class Publisher:
    """Writes to `deltas` what the readers of each query have to know."""

    def __init__(
        self,
        deltas: Deltas,
        commit_log: CommitLog,
        metrics: Metrics,
        failures: Failures,
        *,
        own_barriers: OwnBarriers,
        barrier_wait_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deltas, self._commit_log, self._metrics, self._failures = deltas, commit_log, metrics, failures
        self._own_barriers, self._barrier_wait_s, self._clock = own_barriers, barrier_wait_s, clock
        self.answered = Answered()
        # Called with each query whose result was told.
        self.on_result: Callable[[LiveQuery], None] = lambda live: None
        self._on_evaluated: Callable[[LiveQuery, Sequence[Delta]], None] = lambda live, deltas: None
        self._on_failed: Callable[[LiveQuery, Failure], None] = lambda live, failure: None

    def tell_of_evaluations(
        self,
        on_evaluated: Callable[[LiveQuery, Sequence[Delta]], None],
        on_failed: Callable[[LiveQuery, Failure], None],
    ) -> None:
        """Call these with each query that was evaluated and the deltas that came of it, also none, or that failed."""
        self._on_evaluated, self._on_failed = on_evaluated, on_failed

    def publish(self, live: LiveQuery, deltas: Iterable[Delta]) -> bool:
        """Write the deltas of a query; false if they cannot be written: then an error is published instead."""
        try:
            made = list(deltas)
            written = self._deltas.append(made)
        except Exception as error:
            if is_of_the_process(error):
                raise
            self._unsent(live, error)
            return False
        self._metrics.deltas.inc(written)
        self._on_evaluated(live, made)
        if written:
            live.written(max(0, time.time_ns() // 1000 - self._commit_log.position.moment_us))
            self.on_result(live)
        return True

    def publish_rows(self, live: LiveQuery, rows: Sequence[ResultRow], position: Position) -> bool:
        """Write how the result becomes these rows, or begins with them; false if that cannot be written."""
        if live.result is not None:
            return self.publish(live, live.result.replace(rows, position))
        result = live.new_result(self._commit_log.history)
        is_published = self.publish(live, result.begin(rows, position, live.told))
        if is_published:
            live.result_begun()
        return is_published

    def fail(self, live: LiveQuery, failure: Failure, at: Position | None = None) -> None:
        """The query has no result for now; those who had one learn why, once. `at`: the data that it fails on."""
        if not live.fail(failure, at):
            return
        self._on_failed(live, failure)
        if live.told is not None:
            error = self._error(live, failure, at or self._commit_log.position)
            self._metrics.deltas.inc(self._deltas.append([error]))
            live.error_told(error)

    def answer(self, live: LiveQuery, *, is_current: bool) -> bool:
        """Answer the requests whose barrier the log has passed; false if an answer cannot be written.

        `is_current`: the result is the state at the place where the log stands.
        """
        try:
            self._answer(live, is_current=is_current)
        except Exception as error:
            if is_of_the_process(error):
                raise
            self._unsent(live, error)
            return False
        return True

    def _answer(self, live: LiveQuery, *, is_current: bool) -> None:
        for request_id, request in list(live.requests.items()):
            barrier_lsn = self._barrier_lsn(request)
            if live.failure is not None:
                at = self._fails_at(live, barrier_lsn, is_current=is_current)
                if at is None:
                    continue
                error = self._error(live, live.failure, at)
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, [error]))
                live.error_told(error)
            elif live.result is None or barrier_lsn is None:
                continue
            elif is_current:
                # Move readers at an earlier commit to this one, so that all continue from the same position.
                self._metrics.deltas.inc(self._deltas.append(live.result.progress(self._commit_log.position)))
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, live.result.whole()))
            elif live.result.position.lsn >= barrier_lsn:
                self._metrics.deltas.inc(self._deltas.answer(request.wanted, live.result.whole()))
            else:
                continue
            live.request_answered(request_id)
            self.answered.add(request_id)
            if live.failure is None:
                self.on_result(live)

    def _unsent(self, live: LiveQuery, error: Exception) -> None:
        """A part may have been sent, so that the readers' state is unknown: publish an error behind it."""
        self._failures.note("publish", live.template, repr(error))
        live.lose_track(self._commit_log.history)
        self.fail(live, failure_of(error))

    def _barrier_lsn(self, request: Request) -> int | None:
        """The LSN of the request's barrier, or of a later one of our own; None until one has passed."""
        if not request.wanted.barrier_id:
            return 0
        barriers = self._commit_log.barriers
        found = barriers.get(request.wanted.barrier_id) or barriers.get(request.own_barrier or "")
        if found is None and request.own_barrier is None and self._clock() - request.since_s > self._barrier_wait_s:
            # It may have passed before we began to read; one that we write now is behind it in any case.
            self._own_barriers.want(request)
        return found

    def _fails_at(self, live: LiveQuery, barrier_lsn: int | None, *, is_current: bool) -> Position | None:
        """The position at which a request gets the failure as its answer; None if later data may be without it."""
        if live.failure_at is None:
            return self._commit_log.position
        if barrier_lsn is None:
            return None
        if live.is_by_postgres and is_current:
            return self._commit_log.position
        return live.failure_at if live.failure_at.lsn >= barrier_lsn else None

    def _error(self, live: LiveQuery, failure: Failure, at: Position) -> Delta:
        position = at if live.told is None else live.told.next_position(at)
        return error_delta(live.id, self._commit_log.history, position, failure.sqlstate, failure.message)
