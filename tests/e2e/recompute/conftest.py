"""One capture and one worker for all tests of this folder; each test has tables of its own."""

import itertools
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.recompute.road import Road

FOLDER = Path(__file__).parent
_numbers = itertools.count()
_open: list[Road] = []


@pytest.fixture(scope="session")
def stack(postgres_server, kafka, tmp_path_factory) -> Iterator[Road]:
    name = f"recompute_{secrets.token_hex(4)}"
    made = Road(postgres_server.create_database(name), kafka.bootstrap, f"{name}.", tmp_path_factory.mktemp("road"))
    _open.append(made)
    try:
        made.start_worker()
        made.capture.wait_ready(120)
        made.worker.wait_ready()
        yield made
    finally:
        _close()
        postgres_server.drop_database(name)


@pytest.fixture
def road(stack: Road) -> Iterator[Road]:
    """The shared road with one worker; whatever a test subscribed to ends with it."""
    if not any(worker.is_alive for worker in stack.workers):
        stack.start_worker().wait_ready()
    yield stack
    stack.stop_all()
    for surplus in [worker for worker in stack.workers if worker.is_alive][:-1]:
        surplus.end()
    died = [worker for worker in stack.workers if worker.process.poll() not in (None, -9)]
    stack.workers[:] = [worker for worker in stack.workers if worker not in died]
    assert not died, died[0].output()


@pytest.fixture
def connection(road: Road) -> Iterator[psycopg.Connection]:
    with road.connect() as made:
        yield made


@pytest.fixture
def own() -> str:
    """A word for names that only this test uses."""
    return f"t{next(_numbers)}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The JVM does not outlive these tests: the rest of the run needs the machine."""
    if nextitem is None or nextitem.path.parent != FOLDER:
        _close()


def _close() -> None:
    while _open:
        _open.pop().end()
