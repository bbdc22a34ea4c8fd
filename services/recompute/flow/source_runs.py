"""Queries that PostgreSQL evaluates: when they run, and which position in the log an answer has."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from proto.positions import Xid
from services.changelog.snapshot import Snapshot
from services.recompute.core.live_query import Failure, LiveQuery
from services.recompute.core.log_placement import Concern, place
from services.recompute.core.result import Position
from services.recompute.flow.failures import Failures
from services.recompute.flow.publisher import Publisher
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.outbound.postgres.source import Ran, RanBadly, Source

# A query that failed runs again after this time, even without a change.
RETRY_S = 30.0

Answer: TypeAlias = Ran | RanBadly


class Tracked:
    """A query that PostgreSQL runs: the commits that concern it and that its last answer did not contain."""

    def __init__(self, live: LiveQuery, committed_before: Sequence[Xid]) -> None:
        self.live = live
        # Commits that the log had shown before: the first answer must contain them.
        self.committed_before = committed_before
        self.concerns: list[Concern] = []
        self._next_run_s: float | None = None
        self.is_answered = False

    def concern(self, concern: Concern) -> None:
        self.concerns.append(concern)

    def contain(self, snapshot: Snapshot | None) -> bool:
        """Take out the commits that an answer contains; false if it is the state at no place of the log.

        Without a snapshot nothing was read: the answer, an error, is one of the present.
        """
        if snapshot is None:
            self.concerns = []
            return True
        if not all(snapshot.sees(xid) for xid in self.committed_before):
            return False
        contained = place(self.concerns, snapshot)
        if contained is None:
            return False
        self.committed_before = ()
        self.concerns = self.concerns[contained:]
        return True

    def answered(self) -> None:
        self.is_answered = True

    def run_again_at(self, next_run_s: float) -> None:
        self._next_run_s = next_run_s

    def is_due(self, now_s: float) -> bool:
        """Whether the clock asks for another run; said once."""
        if self._next_run_s is None or now_s < self._next_run_s:
            return False
        self._next_run_s = None
        return True


class SourceRuns:
    """Keeps results that PostgreSQL computes up with the log."""

    def __init__(
        self,
        source: Source,
        commit_log: CommitLog,
        publisher: Publisher,
        failures: Failures,
        *,
        timer_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._commit_log, self._publisher, self._failures = source, commit_log, publisher, failures
        self._timer_s, self._clock = timer_s, clock
        self._tracked: dict[bytes, Tracked] = {}
        # Answers whose barrier the log has not passed. A newer one does not replace an older one: under steady writes
        # no barrier would ever be passed in time.
        self._waiting: list[Answer] = []
        # A query that Spark computes and PostgreSQL is asked about too, and its answers.
        self._aside: bytes | None = None
        self._asides: list[Answer] = []

    def ask_aside(self, live: LiveQuery) -> None:
        """Have PostgreSQL run it once, within the budget, beside whatever is tracked."""
        self._aside = b"aside " + live.id
        self._source.ask(self._aside, live.query)

    def asides(self) -> list[Answer]:
        """What PostgreSQL said aside since the last call; the log may still be to pass it."""
        answers, self._asides = self._asides, []
        return answers

    def forget_aside(self) -> None:
        if self._aside is not None:
            self._source.forget(self._aside)
        self._aside, self._asides = None, []

    def track(self, live: LiveQuery) -> None:
        """Have PostgreSQL evaluate the query from now on."""
        if live.id not in self._tracked:
            self._tracked[live.id] = Tracked(live, self._commit_log.commits.known())
            self._source.ask(live.id, live.query)

    def untrack(self, query_id: bytes) -> None:
        if self._tracked.pop(query_id, None) is not None:
            self._waiting = [answer for answer in self._waiting if answer.query_id != query_id]
            self._source.forget(query_id)

    def concern(self, live: LiveQuery, commit: Commit, *, resets: bool) -> None:
        """A commit touched what the query reads."""
        tracked = self._tracked.get(live.id)
        if tracked is not None:
            tracked.concern(Concern(before=commit.before, position=commit.position, xid=commit.xid, resets=resets))
            self._source.ask(live.id, live.query)

    def is_current(self, live: LiveQuery) -> bool:
        """Whether its result is the state at the place where the log stands."""
        tracked = self._tracked.get(live.id)
        return tracked is not None and tracked.is_answered and not tracked.concerns

    def turn(self) -> None:
        """Publish answers whose position in the log is known, and run again what a timer asks for."""
        ran = self._source.ran()
        self._asides += [answer for answer in ran if answer.query_id == self._aside]
        answers = [*self._waiting, *(answer for answer in ran if answer.query_id in self._tracked)]
        self._waiting = [answer for answer in answers if not self.is_passed(answer)]
        for answer in answers:
            tracked = self._tracked.get(answer.query_id)
            if tracked is not None and self.is_passed(answer):
                fail = partial(self._publisher.fail, tracked.live)
                with self._failures.caught("track", tracked.live.template, fail):
                    self._take(tracked, answer)
        now_s = self._clock()
        for tracked in self._tracked.values():
            if tracked.is_due(now_s):
                self._source.ask(tracked.live.id, tracked.live.query)

    def close(self) -> None:
        self._source.close()

    def is_passed(self, answer: Answer) -> bool:
        """Whether the log has passed its barrier; a run that failed on our side has none."""
        return not answer.barrier_id or answer.barrier_id in self._commit_log.barriers

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
            self._publisher.fail(live, Failure(answer.sqlstate, answer.message), placed)
        else:
            if plan.reads_clock:
                position = Position(placed.lsn, live.template.moment_after(answer.moment_us))
            self._publisher.publish_rows(live, answer.rows, position)
        tracked.answered()
        if tracked.concerns:
            self._source.ask(live.id, live.query)

    def _place(self, tracked: Tracked, answer: Answer) -> Position | None:
        """The position of the answer: behind the commits that it contains, before those that it does not."""
        if not tracked.contain(answer.snapshot):
            return None
        return tracked.concerns[0].before if tracked.concerns else self._commit_log.position

    def _set_timer(self, tracked: Tracked, answer: Answer) -> None:
        plan = tracked.live.template.plan
        assert plan is not None
        if isinstance(answer, RanBadly):
            tracked.run_again_at(self._clock() + RETRY_S)
        elif plan.on_timer or plan.reads_clock:
            tracked.run_again_at(self._clock() + self._timer_s)
