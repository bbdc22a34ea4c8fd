"""A server of each version, with the tables of the corpora."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tests.exact import corpus
from tests.fixtures.postgres import PostgresServer, start_postgres
from tests.integration.recompute.planning import corpus as planning_corpus

VERSIONS = (15, 16, 18)
# Before 17 there is no pg_c_utf8.
_OLDER = ("pg_c_utf8", "ucs_basic")


@pytest.fixture(scope="session")
def upstream_of(tmp_path_factory) -> Iterator[Callable[[int], PostgresServer]]:
    servers: dict[int, PostgresServer] = {}
    with ExitStack() as stack:

        def of(version: int) -> PostgresServer:
            if version not in servers:
                folder = tmp_path_factory.mktemp(f"tree-{version}")
                servers[version] = stack.enter_context(start_postgres(folder, version))
            return servers[version]

        yield of


@pytest.fixture(scope="session", params=VERSIONS)
def tree_server(request: pytest.FixtureRequest, upstream_of) -> tuple[int, PostgresServer]:
    return request.param, upstream_of(request.param)


@pytest.fixture(scope="session")
def tree_dsn(tree_server: tuple[int, PostgresServer]) -> str:
    """A database with the tables of tests/exact."""
    version, server = tree_server
    return _filled(server, "trees", corpus.SETUP if version > 16 else corpus.SETUP.replace(*_OLDER))


@pytest.fixture(scope="session")
def planning_dsn(tree_server: tuple[int, PostgresServer]) -> str:
    return _filled(tree_server[1], "plans", planning_corpus.SETUP)


def _filled(server: PostgresServer, name: str, setup: str) -> str:
    dsn = server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(setup.encode())
    return dsn
