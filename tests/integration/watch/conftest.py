"""Real servers of each supported version, and databases of one test."""

import itertools
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from services.devstack.postgres import wheel_bin

VERSIONS = tuple(int(v) for v in os.environ.get("TIDEWIRE_TEST_PG", "18,16,15").split(","))
_AS_NOBODY = ("unshare", "--user", "--map-user=1000", "--map-group=1000") if os.geteuid() == 0 else ()
_SETTINGS = (
    "fsync=off wal_level=logical max_connections=120 max_replication_slots=20 max_wal_senders=20 "
    "max_prepared_transactions=10 unix_socket_directories= listen_addresses=127.0.0.1"
)


def programs(version: int) -> Path:
    return Path("/usr/lib/postgresql/15/bin") if version == 15 else wheel_bin(version)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One PostgreSQL; `dsn` is its superuser's."""

    def __init__(self, version: int, folder: Path, settings: str = _SETTINGS) -> None:
        self.version = version
        self._bin, self._data, port = programs(version), folder / "data", free_port()
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-sync")
        options = " ".join(f"-c {setting}" for setting in [*settings.split(), f"port={port}"])
        self._run("pg_ctl", "-D", self._data, "-l", folder / "log", "-w", "-o", options, "start")
        self.dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        self._numbers = itertools.count()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def create_database(self) -> str:
        name = f"d{next(self._numbers)}"
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            admin.execute(f"create database {name}")
        return conninfo.make_conninfo(self.dsn, dbname=name)

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [*_AS_NOBODY, self._bin / program, *map(str, arguments)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"pg{version}")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not programs(request.param).exists():
        pytest.skip(f"PostgreSQL {request.param} is not on this machine")
    folder = tmp_path_factory.mktemp(f"pg{request.param}")
    server = Server(request.param, folder)
    yield server
    server.stop()


@pytest.fixture
def dsn(server: Server) -> str:
    return server.create_database()


Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[psycopg.Connection] = []

    def connect(dsn: str, **settings: object) -> psycopg.Connection:
        opened.append(psycopg.connect(dsn, autocommit=True, **settings))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()
