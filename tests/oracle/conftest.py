"""Roads at the places that tests of this folder ask for; they end with the last of these tests."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from services.recompute.core.limits import ReplicaLimits
from tests.oracle.case import Place
from tests.oracle.places import create, server_at
from tests.oracle.watching import OracleRoad

FOLDER = Path(__file__).parent
IS_LONG = "ORACLE_EXAMPLES" in os.environ
# A long run is worth the better machine code.
JAVA_OPTIONS = "-XX:+UseSerialGC" + ("" if IS_LONG else " -XX:TieredStopAtLevel=1")
# The tables of a case are so small that the driver would keep them. At these places they are a base with an overlay in
# Spark, as large ones are, and a few changes make a new base.
ON_SPARK = (Place(15, "icu"), Place(18, "libc"), Place(15, "C"))
EAGER = ReplicaLimits(in_memory_rows=0, overlay_rows=8)
_open = ExitStack()
_roads: dict[Place, OracleRoad] = {}


@pytest.fixture(scope="session")
def road_at(kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Place], OracleRoad]]:
    """A capture and a worker on a database of a place."""

    def make(place: Place) -> OracleRoad:
        if place not in _roads:
            if IS_LONG:
                _close()  # an idle worker costs the others time
            directory = tmp_path_factory.mktemp(f"road-{place}")
            server = _open.enter_context(server_at(place, directory))
            name = f"oracle_{secrets.token_hex(4)}"
            road = _roads[place] = OracleRoad(create(server, place, name), kafka.bootstrap, f"{name}.", directory)
            _open.callback(road.end)
            limits = EAGER if place in ON_SPARK else ReplicaLimits()
            # The budget of `source` is not asked about here, and a busy machine must not look like a wrong answer.
            road.start_worker(
                java_options=JAVA_OPTIONS,
                clock_interval_s="5",
                recheck_s="60",
                statement_timeout_ms=120_000,
                limits=limits,
            )
            road.capture.wait_ready(120)
            road.worker.wait_ready()
        return _roads[place]

    yield make
    _close()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The JVMs do not outlive these tests: the rest of the run needs the machine."""
    if nextitem is None or FOLDER not in nextitem.path.parents:
        _close()


def _close() -> None:
    _roads.clear()
    _open.close()
