"""One Spark session for all tests of evaluation."""

import pytest

from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark
from tests.integration.recompute.evaluation.tables import GivenTables


@pytest.fixture(scope="package")
def spark():
    session = Spark(
        master="local[*]",
        driver_memory="1g",
        java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        incremental=True,
    )
    yield session
    session.stop()


@pytest.fixture
def tables(spark):
    return GivenTables(spark)


@pytest.fixture
def evaluation(spark, tables):
    return Evaluation(spark, tables, max_rows=1000)
