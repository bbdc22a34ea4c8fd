"""Each query on which Spark and PostgreSQL once differed is answered as PostgreSQL answers it, also after changes."""

from collections.abc import Iterator

import pytest

from services.recompute.outbound.spark.session import Spark
from tests.exact import corpus
from tests.exact.bench import ExactBench, exact_bench
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def unchanged(spark: Spark, postgres_server: PostgresServer) -> Iterator[ExactBench]:
    with exact_bench(spark, postgres_server) as bench:
        yield bench


@pytest.fixture(scope="module")
def changed(spark: Spark, postgres_server: PostgresServer) -> Iterator[ExactBench]:
    with exact_bench(spark, postgres_server) as bench:
        bench.change()
        yield bench


@pytest.mark.parametrize("family", corpus.FAMILIES)
def test_a_query_is_answered_as_postgres_answers_it(family: str, unchanged: ExactBench) -> None:
    assert unchanged.wrong(corpus.questions(family)) == {}


@pytest.mark.parametrize("family", corpus.FAMILIES)
def test_a_query_is_answered_as_postgres_answers_it_after_changes(family: str, changed: ExactBench) -> None:
    assert changed.wrong(corpus.questions(family)) == {}
