"""One stack for all tests of this folder; it ends with the last of them."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.live.scaled_stack import ScaledStack

FOLDER = Path(__file__).parent
_open = ExitStack()


@pytest.fixture(scope="session")
def made_stack(postgres_server, kafka, redis_server, tmp_path_factory) -> Iterator[ScaledStack]:
    name = f"live_{secrets.token_hex(4)}"
    settings = {
        "TIDEWIRE_CAPTURE_SLOT": name,
        "TIDEWIRE_REDIS_URL": redis_server.url,
        # The budget of `source` is not asked about here, and a busy machine must not look like a wrong answer.
        "TIDEWIRE_SOURCE_STATEMENT_TIMEOUT_MS": "120000",
        "TIDEWIRE_SOURCE_CONCURRENCY": "2",
        # Scripts stand still where it cannot be proven who the client is, until they are told so.
        "TIDEWIRE_GATEWAY_PROOF_WAIT_S": "1",
    }
    _open.callback(postgres_server.drop_database, name)
    made = ScaledStack(
        postgres_server.create_database(name), kafka.bootstrap, f"{name}.", tmp_path_factory.mktemp("live"), settings
    )
    _open.callback(_end, made)
    made.start_all()
    yield made
    _open.close()


@pytest.fixture
def stack(made_stack: ScaledStack) -> ScaledStack:
    """With all services there."""
    made_stack.start_what_is_dead()
    return made_stack


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The JVM does not outlive these tests: the rest of the run needs the machine."""
    if nextitem is None or FOLDER not in nextitem.path.parents:
        _open.close()


def _end(stack: ScaledStack) -> None:
    try:
        stack.start_what_is_dead()  # what is not ready yet does not end well
        stack.end()
    finally:
        for process in stack._processes.values():
            process.kill()
            process.wait()
