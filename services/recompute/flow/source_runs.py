"""Queries that PostgreSQL evaluates: when it is asked, and where in the log its answers stand."""

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from structlog.typing import FilteringBoundLogger

from proto.positions import Xid
from services.recompute.core.live import Failure, LiveQuery
from services.recompute.core.placing import Concern, place
from services.recompute.core.result import Position
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.inbound.source import Ran, RanBadly, Source
from services.recompute.telling import Telling
from services.recompute.ticking import new_result

# An answer that was an error is asked for again after this time, whether or not anything changed.
RETRY_S = 30.0

Answer: TypeAlias = Ran | RanBadly


class Tracked:
    """A query that PostgreSQL runs: the commits that concern it and that its last answer did not contain."""

    def __init__(self, live: LiveQuery, committed_before: Sequence[Xid]) -> None:
        self.live = live
        # The first answer must contain all that the log had shown before.
        self.committed_before = committed_before
        self.concerns: list[Concern] = []
        self.next_run_s: float | None = None
        self.is_answered = False


class Sourcing:
    """Keeps results that PostgreSQL computes up with the log."""

    def __init__(
        self,
        source: Source,
        log: CommitLog,
        telling: Telling,
        *,
        events: FilteringBoundLogger,
        timer_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._log, self._telling, self._events = source, log, telling, events
        self._timer_s, self._clock = timer_s, clock
        self._tracked: dict[bytes, Tracked] = {}
        # Answers whose barrier the log has not passed. A newer one does not replace an older one: under steady writes
        # no barrier would ever be passed in time.
        self._waiting: list[Answer] = []

    def track(self, live: LiveQuery) -> None:
        """From now on PostgreSQL runs it."""
        if live.id not in self._tracked:
            self._tracked[live.id] = Tracked(live, self._log.commits.known())
            self._source.ask(live.id, live.query)

    def untrack(self, query_id: bytes) -> None:
        if self._tracked.pop(query_id, None) is not None:
            self._waiting = [answer for answer in self._waiting if answer.query_id != query_id]
            self._source.forget(query_id)

    def concern(self, live: LiveQuery, commit: Commit, *, resets: bool) -> None:
        """A commit touched what the query reads."""
        tracked = self._tracked.get(live.id)
        if tracked is not None:
            tracked.concerns.append(
                Concern(before=commit.before, position=commit.position, xid=commit.xid, resets=resets)
            )
            self._source.ask(live.id, live.query)

    def is_current(self, live: LiveQuery) -> bool:
        """Whether its result is the state at the place where the log stands."""
        tracked = self._tracked.get(live.id)
        return tracked is not None and tracked.is_answered and not tracked.concerns

    def turn(self) -> None:
        """Take the answers in whose place in the log is known, and ask again what the clock asks for."""
        answers = [*self._waiting, *self._source.ran()]
        self._waiting = [answer for answer in answers if answer.barrier_id not in self._log.barriers]
        for answer in answers:
            tracked = self._tracked.get(answer.query_id)
            if tracked is not None and answer.barrier_id in self._log.barriers:
                self._take(tracked, answer)
        now_s = self._clock()
        for tracked in self._tracked.values():
            if tracked.next_run_s is not None and now_s >= tracked.next_run_s:
                tracked.next_run_s = None
                self._source.ask(tracked.live.id, tracked.live.query)

    def close(self) -> None:
        self._source.close()

    def _take(self, tracked: Tracked, answer: Answer) -> None:
        live, plan = tracked.live, tracked.live.template.plan
        if plan is None or live.template.is_in_doubt:
            return  # it is being planned anew, and asked again then
        self._set_timer(tracked, answer)
        placed = self._place(tracked, answer)
        if placed is None:
            self._source.ask(live.id, live.query)
            return
        position = placed
        if isinstance(answer, RanBadly):
            self._telling.fail(live, Failure(answer.sqlstate, answer.message), placed)
        else:
            if plan.reads_clock:
                position = Position(placed.lsn, live.template.moment_after(answer.moment_us))
            if live.result is None:
                live.result = new_result(live, plan, self._log.history)
                self._telling.tell(live.result.begin(answer.rows, position, live.told))
                live.told, live.failure = None, None
            else:
                self._telling.tell(live.result.replace(answer.rows, position))
        tracked.is_answered = True
        if tracked.concerns:
            self._source.ask(live.id, live.query)

    def _place(self, tracked: Tracked, answer: Answer) -> Position | None:
        """Where the answer stands: behind the commits that it contains, before those that it does not."""
        if answer.snapshot is None:
            tracked.concerns.clear()
            return self._log.position
        if not all(answer.snapshot.sees(xid) for xid in tracked.committed_before):
            return None
        contained = place(tracked.concerns, answer.snapshot)
        if contained is None:
            return None
        tracked.committed_before = ()
        del tracked.concerns[:contained]
        return tracked.concerns[0].before if tracked.concerns else self._log.position

    def _set_timer(self, tracked: Tracked, answer: Answer) -> None:
        plan = tracked.live.template.plan
        assert plan is not None
        if isinstance(answer, RanBadly):
            tracked.next_run_s = self._clock() + RETRY_S
        elif plan.on_timer or plan.reads_clock:
            tracked.next_run_s = self._clock() + self._timer_s
