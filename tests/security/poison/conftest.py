"""One stack for all poisons: a hostile role, and a neighbour whose changes must keep coming."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.full_stack import running_stack
from tests.security.poison.neighbour import HOSTILE, Neighbour, PoisonedStack

FOLDER = Path(__file__).parent
SCHEMA = (
    f"CREATE ROLE {HOSTILE} LOGIN PASSWORD '{HOSTILE}'",
    "CREATE TABLE neighbours (id int PRIMARY KEY, v int NOT NULL)",
    "INSERT INTO neighbours SELECT n, 0 FROM generate_series(1, 50) n",
    "CREATE TABLE victims (id int PRIMARY KEY, same int NOT NULL DEFAULT 1, d date DEFAULT now(), t text NOT NULL)",
    "INSERT INTO victims SELECT n, 1, '2026-01-01', repeat('a', 60) FROM generate_series(1, 2000) n",
    "CREATE TABLE patterns (id int PRIMARY KEY, pattern text NOT NULL)",
    "INSERT INTO patterns VALUES (1, '%a%a%a%a%a%a%a%b')",
    "CREATE TABLE wide (id int PRIMARY KEY, wide text NOT NULL)",
    "INSERT INTO wide SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 60000) n",
    f"GRANT SELECT ON victims, patterns, wide TO {HOSTILE}",
)
_open = ExitStack()


@pytest.fixture(scope="session")
def stack(postgres_server, kafka, tmp_path_factory) -> Iterator[PoisonedStack]:
    # A subscriber waits as long as recompute takes to come back twice.
    settings = {"TIDEWIRE_RECOMPUTE_DRIVER_MEMORY": "1g", "TIDEWIRE_GATEWAY_SUBSCRIBE_TIMEOUT_S": "120"}
    walk = _open.enter_context(running_stack(postgres_server, kafka, tmp_path_factory.mktemp("poison"), **settings))
    _open.callback(_forget_hostile, walk.dsn)
    with psycopg.connect(walk.dsn, autocommit=True) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
    yield PoisonedStack(walk)
    _open.close()


@pytest.fixture(scope="session")
def neighbour(stack: PoisonedStack) -> Neighbour:
    return _open.enter_context(Neighbour(stack))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The stack does not outlive these tests: the rest of the run needs the machine."""
    if nextitem is None or nextitem.path.parent != FOLDER:
        _open.close()


def _forget_hostile(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [HOSTILE]).rowcount:
            connection.execute(f"DROP OWNED BY {HOSTILE}")
            connection.execute(f"DROP ROLE {HOSTILE}")
