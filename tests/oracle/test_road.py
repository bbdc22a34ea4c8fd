"""At every LSN that a subscriber is led to, it holds what PostgreSQL answered at that LSN."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from tests.oracle import road
from tests.oracle.campaign import QUESTIONS_A_CASE, TIMEOUT_S, Campaign, chosen, each_random
from tests.oracle.case import Case, Place, found, read
from tests.oracle.generated import case
from tests.oracle.playing import Play
from tests.oracle.reducing import Reducer
from tests.oracle.road import Found
from tests.oracle.watching import OracleRoad

# A wrong answer is wrong at the first time.
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
QUESTIONS = chosen({Place(18, "C"): 24, Place(15, "icu"): 10})
STEPS = 10


def accepted(made: OracleRoad, asked: Case) -> Case:
    """The case with those questions only that PostgreSQL takes."""
    play = Play(made.dsn)
    try:
        play.begin(asked.setup)
        return replace(asked, questions=play.accepted(asked.questions, len(asked.questions)))
    finally:
        play.close()


@pytest.mark.parametrize("place", QUESTIONS, ids=str)
def test_every_case_that_was_wrong_once_is_right(place: Place, road_at: Callable[[Place], OracleRoad]):
    cases = {path.name: asked for path in found("road") if (asked := read(path)).place == place}
    wrong = {name: road.run(road_at(place), asked).wrong for name, asked in cases.items()}
    assert {name: words for name, words in wrong.items() if words} == {}


@pytest.mark.parametrize("place", QUESTIONS, ids=str)
def test_initial_result_and_deltas_are_what_postgres_answered(place: Place, road_at: Callable[[Place], OracleRoad]):
    made = road_at(place)
    campaign = Campaign("road", str(place))

    def reduced(alone: Case, _: Found) -> Case:
        return Reducer(lambda smaller: bool(road.run(made, smaller).wrong), tries=14).reduced(alone)

    def run(random: Random) -> None:
        questions = min(QUESTIONS[place], QUESTIONS_A_CASE)
        asked = accepted(made, case(random, place, questions=questions, steps=STEPS))
        campaign.add(asked, road.run(made, asked, every_commit=random.random() < 0.7), reduced)

    each_random(-(-QUESTIONS[place] // QUESTIONS_A_CASE), f"road {place}", run)
    campaign.close()
