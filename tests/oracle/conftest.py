"""One road at the usual place for all tests of this folder that need it, and roads at other places."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.oracle.case import Place
from tests.oracle.places import create, server_at
from tests.oracle.watching import OracleRoad

FOLDER = Path(__file__).parent
# The JVM of the shared road, ended as soon as no test of this folder is left.
_open = ExitStack()


@pytest.fixture(scope="session")
def shared_road(
    kafka, tmp_path_factory: pytest.TempPathFactory, road_at: Callable[[Place], OracleRoad]
) -> Iterator[OracleRoad]:
    yield road_at(Place())
    _open.close()


@pytest.fixture(scope="session")
def road_at(kafka, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Place], OracleRoad]:
    """A capture and a worker on a database of a place; it stays until these tests end."""

    def make(place: Place) -> OracleRoad:
        directory = tmp_path_factory.mktemp(f"road-{place}")
        server = _open.enter_context(server_at(place, directory))
        name = f"oracle_{secrets.token_hex(4)}"
        road = OracleRoad(create(server, place, name), kafka.bootstrap, f"{name}.", directory)
        _open.callback(road.end)
        road.start_worker(clock_interval_s="5", recheck_s="60")
        road.capture.wait_ready(120)
        road.worker.wait_ready()
        return road

    return make


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or FOLDER not in nextitem.path.parents:
        _open.close()
