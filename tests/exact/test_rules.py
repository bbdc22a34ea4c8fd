"""No guard of the translator is idle: without it, Spark answers a query of its family otherwise than PostgreSQL."""

from collections.abc import Iterator

import pytest

from services.recompute.outbound.spark.session import Spark
from tests.exact import corpus
from tests.exact.bench import ExactBench, exact_bench
from tests.exact.faults import FAULTS
from tests.fixtures.postgres import PostgresServer

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(spark: Spark, postgres_server: PostgresServer) -> Iterator[ExactBench]:
    with exact_bench(spark, postgres_server) as made:
        yield made


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_planted_back_is_found(name: str, bench: ExactBench, monkeypatch: pytest.MonkeyPatch) -> None:
    family, plant = FAULTS[name]
    questions = corpus.questions(family)
    plant(monkeypatch)
    assert bench.wrong(questions) != {}
