"""Expressions of mixed types in every position, at depth: what Spark computes of them is PostgreSQL's answer."""

import os
from collections.abc import Iterator
from functools import partial
from random import Random

import psycopg
import pytest

from services.recompute.core import planning
from services.recompute.core.tree.gate import RULES, refusal
from services.recompute.outbound.spark.session import Spark
from tests.exact.bench import ExactBench, exact_bench
from tests.fixtures.postgres import PostgresServer
from tests.oracle.answers import ask
from tests.oracle.campaign import TIMEOUT_S
from tests.oracle.case import Question
from tests.oracle.positions import question

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
IS_LONG = "ORACLE_EXAMPLES" in os.environ
QUERIES = 2_000 if IS_LONG else 60
TOGETHER = 40


@pytest.fixture(scope="module")
def bench(spark: Spark, postgres_server: PostgresServer) -> Iterator[ExactBench]:
    with exact_bench(spark, postgres_server) as made:
        yield made


@pytest.fixture(scope="module")
def generated(bench: ExactBench) -> list[Question]:
    """The queries that PostgreSQL accepts; of types that do not fit it says so, errors in values are answers."""
    random = Random(f"positions {os.environ.get('ORACLE_SEED', '1')}")
    asked = [question(random) for _ in range(QUERIES)]
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        return [one for one in asked if ask(connection, one).error[:2] in ("", "22")]


def wrong(bench: ExactBench, asked: list[Question]) -> Iterator[tuple[int, str]]:
    for begin in range(0, len(asked), TOGETHER):
        found = bench.wrong(asked[begin : begin + TOGETHER])
        yield from ((begin, f"{sql}\n    {words}") for sql, words in found.items())


def test_what_spark_computes_of_generated_positions_is_right(bench, generated):
    found = [words for _, words in wrong(bench, generated)]
    assert found == [], f"{len(found)} of {len(generated)} wrong:\n" + "\n".join(found)


if IS_LONG:  # sixty queries are too few

    def test_the_rule_of_errors_that_spark_removes_is_missed_soon(bench, generated, monkeypatch):
        """Planted back, the fault is found among the first queries."""
        others = {name: rule for name, rule in RULES.items() if name != "errors"}
        monkeypatch.setattr(planning, "refusal", partial(refusal, rules=others))
        begin, words = next(wrong(bench, generated), (QUERIES, "not found"))
        print(f"PLANTED errors: among the first {begin + TOGETHER} of {QUERIES}: {words}")
        assert begin < QUERIES
