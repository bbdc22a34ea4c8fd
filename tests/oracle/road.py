"""A case on the whole stack: capture, Kafka, a recompute worker, and subscribers that are told deltas."""

from collections import Counter

from msgspec import Struct

from services.changelog import barrier
from tests.oracle.case import Case, Question
from tests.oracle.playing import PULSE, Play
from tests.oracle.watching import OracleRoad, Watched, wrong

PULSE_QUESTION = Question(f"SELECT n FROM {PULSE}")
PATIENCE_S = 300.0


class Found(Struct, frozen=True):
    question: Question
    words: str


class Report(Struct):
    """What a case came to: what is wrong, and how its queries were kept."""

    wrong: list[Found]
    strategies: Counter[str]
    states: int = 0
    commits: int = 0
    # The strategy of each question.
    kept: tuple[str, ...] = ()


def run(road: OracleRoad, case: Case, *, every_commit: bool = True) -> Report:
    """Play the case; with `every_commit` the worker is given time to tell the state after each one."""
    play = Play(road.dsn)
    try:
        play.begin(case.setup)
        with road.connect() as connection:
            barrier_id = barrier.emit(connection)
        watched = [road.watch(question, barrier_id) for question in case.questions]
        pulse = road.watch(PULSE_QUESTION, barrier_id)
        road.until(lambda: all(_has_begun(one) for one in (*watched, pulse)), lambda: _silent(watched), PATIENCE_S)

        def told(beats: int) -> None:
            if every_commit:
                reached = ((str(beats).encode(),),)
                road.until(lambda: pulse.states[-1].rows == reached, f"the pulse at {beats}", PATIENCE_S)
            else:
                road.pump(0.0)

        moments = play.run(case.steps, case.questions, told)
        road.catch_up(*watched, within_s=PATIENCE_S)
        commits = road.commits()
        found = [
            Found(question, words)
            for at, (question, one) in enumerate(zip(case.questions, watched, strict=True))
            if (words := wrong(question, at, one, moments, commits))
        ]
        kept = tuple(road.strategy_of(one) for one in watched)
        return Report(found, Counter(kept), sum(len(one.states) for one in watched), len(moments) - 1, kept)
    finally:
        road.stop_all()
        play.close()


def _has_begun(one: Watched) -> bool:
    return bool(one.states) or bool(one.broken)


def _silent(watched: list[Watched]) -> str:
    return f"the first results of {[one.query.sql for one in watched if not _has_begun(one)][:5]}"
