"""Subscribers that note every state they are led to, and what is wrong with it, without ending the run."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from proto.positions import Lsn
from proto.rows import ResultRow, decode_block
from proto.streams.deltas import Verdict, judge
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_FULL, Delta
from proto.tidewire.v1.queries_pb2 import Query
from tests.e2e.recompute.follower import Follower
from tests.e2e.recompute.road import Road
from tests.oracle.answers import Answer, difference, text_settings
from tests.oracle.case import Question
from tests.oracle.commits import commits_until_now
from tests.oracle.playing import Moment


class State(Struct, frozen=True):
    """Where a subscriber came to: a whole result in order, the rows that deltas led to, or an error."""

    lsn: Lsn
    kind: str
    rows: tuple[ResultRow, ...]
    sqlstate: str = ""


class Watched(Follower):
    """A subscriber; the first thing that breaks the contract ends its watching, not the run."""

    def __init__(self, query: Query) -> None:
        super().__init__(query)
        self.states: list[State] = []
        self.broken = ""

    def take(self, delta: Delta, request_id: bytes) -> None:
        if self.broken:
            if request_id in self.asked:
                self._noted(delta, request_id)
            return
        began = self.has_begun
        try:
            if began and request_id in self.asked:
                self._same_as_folded(delta)
            super().take(delta, request_id)
        except AssertionError as error:
            self.broken = str(error) or repr(error)
            if request_id in self.asked:
                self._noted(delta, request_id)

    def _noted(self, delta: Delta, request_id: bytes) -> None:
        super()._answered(delta, request_id, Verdict.APPLY)

    def _same_as_folded(self, delta: Delta) -> None:
        """A whole result comes after the deltas that lead to it."""
        if judge(self.standing, delta) is Verdict.APPLY and delta.kind == DELTA_KIND_FULL and self.error is None:
            rows = [row for row, weight in decode_block(delta.rows) for _ in range(weight)]
            assert sorted(map(repr, rows)) == sorted(map(repr, self.rows.elements())), (
                f"a whole result at {delta.to_lsn} differs from what the deltas before it led to"
            )

    def _apply(self, delta: Delta) -> None:
        super()._apply(delta)
        rows = tuple(self.order) if delta.kind == DELTA_KIND_FULL else tuple(self.rows.elements())
        self.states.append(State(Lsn(delta.to_lsn), self.seen[-1].kind, rows, delta.error_sqlstate))


class OracleRoad(Road):
    """A road whose subscribers are watched."""

    def __init__(self, dsn: str, kafka: str, prefix: str, directory: Path) -> None:
        super().__init__(dsn, kafka, prefix, directory)
        self._strategies: dict[str, str] = {}

    def watch(self, question: Question, barrier_id: str) -> Watched:
        query = self.query(
            question.sql,
            *(None if value is None else value.encode() for value in question.parameters),
            filter=question.filter,
            settings=text_settings(question),
        )
        watched = Watched(query)
        self._followers.setdefault(query.query_id, []).append(watched)
        self._want(query, watched.request_id, barrier_id)
        return watched

    def strategy_of(self, watched: Watched) -> str:
        """How the worker keeps it, as it said last; a refused query has no strategy."""
        template = watched.query.template_id.hex()
        if template not in self._strategies:
            for worker in self.workers:
                self._strategies |= {line["template"]: line["strategy"] for line in worker.said("query_planned")}
        return self._strategies.get(template, "refused")

    def pump(self, wait_s: float = 0.05) -> None:
        super().pump(wait_s)
        if self.workers and self.worker.process.poll() is not None:
            raise RuntimeError(f"the worker ended:\n{self.worker.output()}")

    def commits(self) -> dict[int, Lsn]:
        """Where in the log each transaction committed."""
        with self.connect() as connection:
            return commits_until_now(connection, self.kafka)


def wrong(question: Question, at: int, watched: Watched, moments: Sequence[Moment], commits: dict[int, Lsn]) -> str:
    """What a subscriber was told that PostgreSQL did not answer at that place; `at` is the question's place."""
    lsns = [commits.get(moment.xid, moment.lsn) for moment in moments[1:] if moment.xid is not None]
    for state in watched.states:
        number = sum(lsn <= state.lsn for lsn in lsns)
        found = _state_wrong(question, moments[number].answers[at], state)
        if found:
            return f"after {number} commits ({state.kind} at {state.lsn}): {found}"
    if watched.broken:
        return watched.broken
    if not watched.states:
        return "no first result came"
    last = watched.states[-1]
    found = _state_wrong(question, moments[-1].answers[at], last)
    return f"at the end, after {len(lsns)} commits ({last.kind} at {last.lsn}): {found}" if found else ""


def _state_wrong(question: Question, right: Answer, state: State) -> str:
    if state.kind == "ERROR":
        if right.error:
            return "" if right.error == state.sqlstate else f"error {state.sqlstate} instead of {right.error}"
        return f"error {state.sqlstate}, and PostgreSQL answers {len(right.rows)} rows"
    return difference(question.check, right, state.rows, in_order=state.kind == "FULL")
