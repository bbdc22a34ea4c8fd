"""Whatever is proven gives PostgreSQL's value for all tuples of edge values, in every position of a query."""

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from msgspec.structs import replace

from tests.oracle import worlds
from tests.oracle.answers import ask
from tests.oracle.campaign import TIMEOUT_S
from tests.oracle.case import Place, Question
from tests.oracle.local import Local, Outcome
from tests.oracle.places import create
from tests.oracle.regression_sql import Told, wrong

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
IS_LONG = "ORACLE_EXAMPLES" in os.environ
# In `make test`: as many of the things, others for every seed.
SHORT = 8
# As many are planned and evaluated together.
TOGETHER = 12
ZONES = ("UTC", "Europe/Berlin")


@pytest.fixture(scope="module")
def dsn(postgres_server) -> Iterator[str]:
    name = f"worlds_{secrets.token_hex(4)}"
    yield create(postgres_server, Place(18, "C"), name)
    postgres_server.drop_database(name)


def chosen(connection: psycopg.Connection) -> list[worlds.Thing]:
    every = worlds.things(connection)
    named = os.environ.get("ORACLE_THINGS", "")
    if named:
        return [one for one in every if one.name.split()[0] in named.split(",")]
    if IS_LONG:
        part, parts = (int(word) for word in os.environ.get("ORACLE_PART", "0/1").split("/"))
        return every[part::parts]
    return Random(os.environ.get("ORACLE_SEED", "make test")).sample(every, SHORT)


def test_spark_gives_postgres_s_value_for_every_tuple_in_every_position(spark, dsn):
    found: list[str] = []
    strategies: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        listed = chosen(connection)
        for begin in range(0, len(listed), TOGETHER):
            asked: list[Question] = []
            for number, thing in enumerate(listed[begin : begin + TOGETHER]):
                table = f"w{begin + number}"
                fails = worlds.make(connection, thing, table)
                questions = worlds.questions(thing, table, fails=fails)
                zones = ZONES if any("timestamp" in kind or kind == "date" for kind in thing.kinds) else ZONES[:1]
                asked += [replace(one, settings={"TimeZone": zone}) for zone in zones for one in questions]
            for question, outcome in zip(asked, evaluated(Local(spark, dsn), asked), strict=True):
                strategies[outcome.strategy] += 1
                if outcome.rows is None:
                    reasons[f"{outcome.strategy}: {outcome.why[:70]}"] += 1
                answer = ask(connection, question)
                words = wrong(Told(answer.rows, answer.error), outcome)
                if words:
                    found.append(f"{question.name} [{question.settings['TimeZone']}] {question.sql}\n    {words}")
            for number in range(len(listed[begin : begin + TOGETHER])):
                connection.execute(f"DROP TABLE w{begin + number}, w{begin + number}_all".encode())
    print(f"{len(listed)} things, {strategies.total()} queries, {dict(strategies)}, {len(found)} wrong")
    if IS_LONG:
        print("\n".join(f"{count:5} {reason}" for reason, count in reasons.most_common(40)))
    assert found == [], f"{len(found)} wrong:\n" + "\n".join(found)


def evaluated(local: Local, asked: list[Question]) -> list[Outcome]:
    """All together; what ends in an exception alone."""
    try:
        return local.outcomes(asked)
    except Exception as error:
        if len(asked) == 1:
            return [Outcome("stumbled", repr(error)[:300])]
    half = len(asked) // 2
    return evaluated(local, asked[:half]) + evaluated(local, asked[half:])
