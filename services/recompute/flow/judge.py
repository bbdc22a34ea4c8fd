"""A share of the results that Spark computed is compared with PostgreSQL's own answer at the same place of the log.

PostgreSQL answers in a snapshot; while it does, each commit that concerns the query is evaluated for itself, so that
there is a result of ours behind every commit that the snapshot may end at.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from proto.positions import Xid
from proto.rows import ResultRow
from services.recompute.core.live_query import LiveQuery, LiveTemplate
from services.recompute.core.log_placement import Concern, place
from services.recompute.core.plan import Plan
from services.recompute.core.verdict import Verdict, unlike, verdict
from services.recompute.flow.source_runs import Answer, SourceRuns
from services.recompute.inbound.changes import Commit, CommitLog
from services.recompute.metrics import Metrics
from services.recompute.outbound.differing_cases import DifferingCases
from services.recompute.outbound.postgres.source import RanBadly

# An answer that no result of ours stands beside is asked for again so often.
MOST_RUNS = 3
PATIENCE_S = 60.0
# So many commits are evaluated for themselves, which costs everybody time; then the place may be missed, and is asked
# for again when less is written.
MOST_ALONE = 16
# Larger results are not judged.
MOST_ROWS = 20_000
# They tell of PostgreSQL's state and of the budget, not of the query: class 53, 57 and 58, and locks.
_NO_ANSWER = ("53", "57", "58", "55", "40", "08", "XX")


class Judgement:
    """One query that PostgreSQL is asked about, and the results that it had since."""

    def __init__(
        self, live: LiveQuery, plan: Plan, committed_before: Sequence[Xid], until_s: float, runs: int = 1
    ) -> None:
        self.live, self.plan, self.committed_before, self.until_s = live, plan, committed_before, until_s
        self.concerns: list[Concern] = []
        # By how many of the concerns they contain.
        self.states: dict[int, Counter[ResultRow]] = {}
        self.answer: Answer | None = None
        self.runs = runs

    def remember(self) -> None:
        """Keep the result that the query has behind the concerns so far."""
        contained, result = len(self.concerns), self.live.result
        is_new = contained not in self.states and len(self.states) <= 2 * MOST_ALONE
        if is_new and self.live.template.is_current and result is not None:
            self.states[contained] = Counter(result.rows)

    def take(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self.answer = answer


class Judge:
    """One judgement at a time; `share` of the results are picked."""

    def __init__(
        self,
        source_runs: SourceRuns,
        commit_log: CommitLog,
        metrics: Metrics,
        log: FilteringBoundLogger,
        folder: Path,
        *,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._source_runs, self._commit_log, self._metrics, self._log = source_runs, commit_log, metrics, log
        self._cases = DifferingCases(folder)
        self._share, self._clock, self._chance = share, clock, chance
        self._picked: LiveQuery | None = None
        self._open: Judgement | None = None
        # What is done with a template whose result is wrong.
        self.distrust: Callable[[LiveTemplate, Plan], None] = lambda template, plan: None

    def consider(self, live: LiveQuery) -> None:
        """A result of it was told."""
        if self._open is None and self._picked is None and self._chance() < self._share:
            self._picked = live

    def concern(self, template: LiveTemplate, commit: Commit, *, resets: bool) -> bool:
        """A commit touched what the template reads; true if the result behind that very commit may be needed.

        Behind those that the snapshot, once it is known, does not see, none is.
        """
        if self._open is None or self._open.live.template is not template:
            return False
        self._open.concerns.append(
            Concern(before=commit.before, position=commit.position, xid=commit.xid, resets=resets)
        )
        snapshot = None if self._open.answer is None else self._open.answer.snapshot
        # Beside the loop it is evaluated when its turn comes.
        may_end_here = snapshot is None or snapshot.sees(commit.xid)
        return not template.lane.is_in and may_end_here and len(self._open.concerns) <= MOST_ALONE

    def turn(self) -> None:
        """After a tick: remember the result, and judge if the answer is there."""
        picked, self._picked = self._picked, None
        if self._open is None and picked is not None and _is_judgeable(picked):
            self._begin(picked)
        judgement = self._open
        if judgement is None:
            return
        if judgement.live.template.plan is not judgement.plan or not _is_judgeable(judgement.live, whenever=True):
            self._close("overtaken")
            return
        judgement.remember()
        judgement.take(self._source_runs.asides())
        if self._clock() > judgement.until_s:
            self._close("unanswered" if judgement.answer is None else "unplaced")
        elif judgement.answer is not None and self._source_runs.is_passed(judgement.answer):
            self._judge(judgement, judgement.answer)

    def _begin(self, live: LiveQuery, runs: int = 1) -> None:
        plan = live.template.plan
        assert plan is not None
        known = self._commit_log.commits.known()
        self._open = Judgement(live, plan, known, self._clock() + PATIENCE_S, runs)
        self._source_runs.ask_aside(live)

    def _judge(self, judgement: Judgement, answer: Answer) -> None:
        is_error = isinstance(answer, RanBadly)
        if answer.snapshot is None or (isinstance(answer, RanBadly) and answer.sqlstate.startswith(_NO_ANSWER)):
            self._close("unanswered")
            return
        contained = None
        if all(answer.snapshot.sees(xid) for xid in judgement.committed_before):
            contained = place(judgement.concerns, answer.snapshot)
        if contained is not None and contained not in judgement.states and contained == len(judgement.concerns):
            return  # the tick is still to come
        if contained is None or contained not in judgement.states:
            self._again(judgement)
            return
        ours = judgement.states[contained]
        rows = [] if isinstance(answer, RanBadly) else answer.rows
        found = Verdict.WRONG if is_error else verdict(judgement.plan, ours, rows)
        if found is Verdict.WRONG:
            missing, surplus = unlike(ours, rows)
            words = f"{answer.sqlstate} {answer.message}" if isinstance(answer, RanBadly) else ""
            lsn = judgement.concerns[contained - 1].position.lsn if contained else None
            path = self._cases.write(judgement.live.query, judgement.plan, lsn, missing, surplus, words)
            self._log.error(
                "result_differed",
                template=judgement.live.template.id.hex(),
                strategy=judgement.plan.strategy.value,
                missing=len(missing),
                surplus=len(surplus),
                error=words,
                case=str(path),
            )
            self.distrust(judgement.live.template, judgement.plan)
        self._close(found.value)

    def _again(self, judgement: Judgement) -> None:
        if judgement.runs >= MOST_RUNS:
            self._close("unplaced")
            return
        live, runs = judgement.live, judgement.runs
        self._source_runs.forget_aside()
        self._open = None
        if _is_judgeable(live):
            self._begin(live, runs + 1)
        else:
            self._metrics.verified.labels("unplaced").inc()

    def _close(self, outcome: str) -> None:
        self._open = None
        self._source_runs.forget_aside()
        self._metrics.verified.labels(outcome).inc()


def _is_judgeable(live: LiveQuery, *, whenever: bool = False) -> bool:
    """Spark computes it, its rows depend on the log alone, and it stands where the log does; `whenever`: or will."""
    template, plan = live.template, live.template.plan
    if plan is None or live.is_by_postgres or plan.reads_clock or plan.on_timer or template.is_in_doubt:
        return False
    if template.members.get(live.id) is not live:
        return False
    if live.result is None:
        return False
    return whenever or (template.is_current and live.result.rows.total() <= MOST_ROWS)
