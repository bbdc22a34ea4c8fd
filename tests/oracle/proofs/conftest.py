"""One Spark session for all proofs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.recompute.outbound.spark.session import Spark

FOLDER = Path(__file__).parent
_open: list[Spark] = []


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    made = Spark(
        master="local[2]", driver_memory="2g", java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1", incremental=True
    )
    # Compiling a job over a few rows takes far longer than running it.
    made.session.conf.set("spark.sql.codegen.wholeStage", "false")
    made.session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    _open.append(made)
    yield made
    _close()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The JVM does not outlive these tests: the rest of the run needs the machine."""
    if nextitem is None or nextitem.path.parent != FOLDER:
        _close()


def _close() -> None:
    while _open:
        _open.pop().stop()
