"""Queries of mixed types in odd places are answered as PostgreSQL does; with a fault planted back, one is not."""

import os
from collections.abc import Iterator
from random import Random

import psycopg
import pytest

from services.recompute.outbound.spark.session import Spark
from tests.exact.bench import ExactBench, exact_bench
from tests.exact.faults import FAULTS
from tests.fixtures.postgres import PostgresServer
from tests.oracle.answers import ask
from tests.oracle.case import Question
from tests.oracle.dice import Dice
from tests.oracle.odd import OddQueries

pytestmark = [pytest.mark.oracle, pytest.mark.slow]
SEED = os.environ.get("ORACLE_SEED", "odd")
QUERIES = int(os.environ.get("ORACLE_EXAMPLES", "120"))
# Within as many a planted fault must be found.
WITHIN = 2_000
AT_ONCE = 40


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    made = Spark(
        master="local[2]", driver_memory="1g", java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1", incremental=True
    )
    made.session.conf.set("spark.sql.codegen.wholeStage", "false")
    made.session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def bench(spark: Spark, postgres_server: PostgresServer) -> Iterator[ExactBench]:
    with exact_bench(spark, postgres_server) as made:
        yield made


def generated(dsn: str, count: int) -> Iterator[list[Question]]:
    """So many queries that PostgreSQL takes, some at a time; those that fail on a value are among them."""
    queries, taken = OddQueries(Dice(Random(SEED))), 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        while taken < count:
            # The same query twice would be one template with two subscribers.
            made = {one.sql: one for one in (queries.question() for _ in range(AT_ONCE))}.values()
            fit = [one for one in made if ask(connection, one).error[:2] not in ("42", "0A")]
            taken += len(fit)
            yield fit


def test_what_spark_answers_is_what_postgres_answers(bench: ExactBench) -> None:
    wrong: dict[str, str] = {}
    for questions in generated(bench.dsn, QUERIES):
        wrong |= bench.wrong(questions)
    assert wrong == {}


@pytest.mark.chaos
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_planted_back_is_found(name: str, bench: ExactBench, monkeypatch: pytest.MonkeyPatch) -> None:
    _, plant = FAULTS[name]
    plant(monkeypatch)
    tried = 0
    for questions in generated(bench.dsn, WITHIN):
        tried += len(questions)
        if bench.wrong(questions):
            return
    pytest.fail(f"not found among {tried} queries")
