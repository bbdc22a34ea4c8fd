"""What Spark is trusted with, it answers as PostgreSQL does: generated queries over tables as they stand."""

import secrets
from collections.abc import Iterator
from random import Random

import pytest

from services.recompute.outbound.spark.session import Spark
from tests.fixtures.postgres import PostgresServer
from tests.oracle import planned
from tests.oracle.campaign import QUESTIONS_A_CASE, TIMEOUT_S, Campaign, chosen, each_random
from tests.oracle.case import Case, Place, found, read
from tests.oracle.generated import case
from tests.oracle.local import Local
from tests.oracle.places import create, server_at
from tests.oracle.reducing import Reducer
from tests.oracle.road import Found

# A wrong answer is wrong at the first time.
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
# In `make test`; the usual place is where most of the time goes.
QUESTIONS = chosen({Place(18, "C"): 40, Place(15, "icu"): 20, Place(18, "libc"): 20})


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    made = Spark(master="local[2]", driver_memory="1g", java_options=options, incremental=True)
    yield made
    made.stop()


@pytest.fixture(scope="module", params=QUESTIONS, ids=str)
def at(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[tuple[Place, PostgresServer]]:
    with server_at(request.param, tmp_path_factory.mktemp(f"planning-{request.param}")) as server:
        yield request.param, server


def one(spark: Spark, server: PostgresServer, asked: Case) -> planned.Report:
    name = f"planned_{secrets.token_hex(4)}"
    dsn = create(server, asked.place, name)
    try:
        return planned.run(Local(spark, dsn), dsn, asked)
    finally:
        server.drop_database(name)


def test_every_query_that_was_wrong_once_is_right(at, spark):
    place, server = at
    cases = {path.name: read(path) for path in found("planned")}
    wrong = {name: one(spark, server, asked).wrong for name, asked in cases.items() if asked.place == place}
    assert {name: words for name, words in wrong.items() if words} == {}


def test_what_spark_answers_is_what_postgres_answers(at, spark):
    place, server = at
    campaign = Campaign("planned", str(place))

    def reduced(alone: Case, what: Found) -> Case:
        is_error = "PostgreSQL says error" in what.words

        def is_wrong(smaller: Case) -> bool:
            report = one(spark, server, smaller)
            return any(("PostgreSQL says error" in found.words) == is_error for found in report.wrong)

        return Reducer(is_wrong).reduced(alone)

    def run(random: Random) -> None:
        asked = case(random, place, questions=min(QUESTIONS[place], QUESTIONS_A_CASE), steps=6)
        campaign.add(asked, one(spark, server, asked), reduced)

    each_random(-(-QUESTIONS[place] // QUESTIONS_A_CASE), f"planned {place}", run)
    campaign.close()
