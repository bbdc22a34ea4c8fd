"""End to end against PostgreSQL: what a client has merged is what PostgreSQL answered at every LSN that it was told,
while clients pause, stop reading, leave and come back, and gateway, fan-out, registry and recompute are killed.

V13, V16–V35, V42–V50, V53; decisions 1, 2, 3.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from proto.pgwire.live import Selective
from services.chassis.postgres import Postgres
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.sqlguard.refusal import Refused
from tests.e2e.live.judging import Judge
from tests.e2e.live.ledger import ledger
from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.storm import Storm
from tests.e2e.live.subscriber import Subscriber
from tests.e2e.live.subscription import Subscription
from tests.oracle.answers import SETTINGS
from tests.oracle.campaign import TIMEOUT_S, each_random
from tests.oracle.case import Case, Place, Question
from tests.oracle.generated import case
from tests.oracle.local import query_for, without_obstacles
from tests.oracle.playing import Play
from tests.oracle.road import PULSE_QUESTION

# A wrong answer is wrong at the first time.
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
QUESTIONS_A_CASE = 10
CASES = -(-int(os.environ.get("ORACLE_EXAMPLES", "20")) // QUESTIONS_A_CASE)
STEPS = 14
CLIENTS = 4
SELECTIVES = (
    None,
    None,
    Selective(enabled=False),
    Selective(max_changed_columns_ratio=1.0),
    Selective(min_changed_columns=2, max_changed_columns_ratio=0.9),
)


@pytest.fixture
def wide_stack(stack: ScaledStack) -> Iterator[ScaledStack]:
    """Two gateways and two fan-outs."""
    stack.add_gateway("gateway-2")
    stack.add("fanout-2")
    yield stack
    stack.remove("gateway-2")
    stack.remove("fanout-2")


def test_a_client_holds_what_postgres_answers_through_every_storm(wide_stack: ScaledStack):
    def generated(random: Random) -> Case:
        return case(random, Place(), questions=2 * QUESTIONS_A_CASE, steps=STEPS)

    storms(CASES, "live", lambda seed: weather(wide_stack, seed, generated))


def test_results_that_travel_in_parts_come_through_every_storm(wide_stack: ScaledStack):
    storms(-(-CASES // 3), "live ledger", lambda seed: weather(wide_stack, seed, lambda random: ledger(random, STEPS)))


def storms(count: int, label: str, run: Callable[[int], None]) -> None:
    """So many of them, or the one of LIVE_SEED."""
    if seed := os.environ.get("LIVE_SEED"):
        run(int(seed))
    else:
        each_random(count, label, lambda random: run(random.getrandbits(32)))


def weather(stack: ScaledStack, seed: int, made: Callable[[Random], Case]) -> None:
    """One case in one storm; the seed gives both again."""
    print(f"LIVE_SEED={seed}", flush=True)
    random = Random(seed)
    asked = made(random)
    stack.start_what_is_dead()
    play = Play(stack.dsn)
    storm = Storm(stack, random, commits=STEPS - 2)
    try:
        play.begin(asked.setup)
        questions = (*play.accepted(asked.questions, QUESTIONS_A_CASE), PULSE_QUESTION)
        for client, pulse in clients(stack, random, storm, questions):
            storm.add(client, pulse)
        storm.until(lambda: all(one.has_nothing_to_ask for one in storm.clients), lambda: "the first results")
        moments = play.run(asked.steps, questions, storm.after_commit)
        storm.bring_back()
        storm.calm()
        judge = Judge(stack, moments)

        def wrong() -> list[str]:
            return [_told(storm, one, words) for one in held if (words := judge.wrong_at_the_end(one))]

        held = [one for client in storm.clients for one in client.subscriptions]
        on_the_way = [_told(storm, one, words) for one in held if (words := judge.wrong_on_the_way(one))]
        assert on_the_way == [], f"LIVE_SEED={seed}"
        storm.until(lambda: not wrong(), lambda: f"LIVE_SEED={seed}: {wrong()}")
        on_the_way = [_told(storm, one, words) for one in held if (words := judge.wrong_on_the_way(one))]
        assert on_the_way == [], f"LIVE_SEED={seed}"
        states, lives = sum(len(one.states) for one in held), sum(one.lives for one in held)
        print(f"{len(held)} subscriptions lived {lives} times, {states} states in {len(moments)} moments: {storm.done}")
    finally:
        for client in storm.clients:
            client.leave(politely=True)
        storm.bring_back()
        play.close()


def clients(
    stack: ScaledStack, random: Random, storm: Storm, questions: Sequence[Question]
) -> Iterator[tuple[Subscriber, Subscription]]:
    """Every question is asked by two clients or more; those with settings of their own by connections of their own."""
    keys = dict(enumerate(keys_of(stack, questions)))

    # How often someone connects depends on time; what else the seed gives must not.
    choosing = Random(random.getrandbits(32))

    def some_gateway() -> str:
        return choosing.choice(stack.gateway_dsns)

    def made(at: int) -> Subscription:
        return Subscription(questions[at], at, keys[at], random.choice(SELECTIVES))

    pulse = len(questions) - 1
    plain = [at for at in range(pulse) if not questions[at].settings]
    for number in range(CLIENTS):
        client = Subscriber(some_gateway, lambda: storm.commits, SETTINGS)
        client.want(*(made(at) for at in plain if (at + number) % 2 or random.random() < 0.2))
        yield client, made(pulse)
    for at in range(pulse):
        if questions[at].settings:
            client = Subscriber(some_gateway, lambda: storm.commits, {**SETTINGS, **questions[at].settings})
            client.want(made(at), made(at))
            yield client, made(pulse)


def keys_of(stack: ScaledStack, questions: Sequence[Question]) -> Iterator[tuple[int, ...]]:
    """The result columns that tell rows apart, as the planner is certain of; the judge tells whether it is right."""
    with CatalogReader(Postgres(dsn=stack.dsn, superusers_subscribe=True)) as reader:
        for question in questions:
            query = query_for(question)
            try:
                described = without_obstacles(reader.describe(query))
                yield plan(query.template_sql, query.filter, described, query.text_settings).key_positions
            except Refused:
                yield ()


def _told(storm: Storm, one: Subscription, words: str) -> str:
    name = next(client.name for client in storm.clients if one in client.subscriptions)
    return f"{name}, {one.question.asked} {one.question.parameters} {one.question.settings}: {words}"
