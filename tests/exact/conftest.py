"""One Spark session for all tests here."""

from collections.abc import Iterator

import pytest

from services.recompute.outbound.spark.session import Spark


@pytest.fixture(scope="package")
def spark() -> Iterator[Spark]:
    session = Spark(
        master="local[2]", driver_memory="1g", java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1", incremental=True
    )
    # Compiling a job over ten rows takes far longer than running it.
    session.session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()
