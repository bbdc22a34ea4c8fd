"""A database in which mallory owns a schema full of hostile code, on each PostgreSQL that is here."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import Diagnostic

from services.chassis.postgres import Postgres
from services.devstack.postgres import MAJOR
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber
from tests.fixtures.postgres import PostgresServer, start_postgres

HOSTILE = (Path(__file__).parent / "hostile.sql").read_bytes()
SENTINEL = "sentinel-7f3a"
PATIENT = Deadlines(10_000, 5_000)
UNLESS_THERE = "DO $$ BEGIN CREATE ROLE {}; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"


class Lair:
    """The database, and what mallory's code reported about itself when it ran."""

    def __init__(self, dsn: str, **settings: object) -> None:
        self.dsn = dsn
        self.runners = Runners(Postgres(dsn=dsn, **settings), application_name="zoo")
        self.reports: list[str] = []

    @property
    def identities(self) -> set[str]:
        """As whom mallory's code has run."""
        return {report.removeprefix("I am ") for report in self.reports if report.startswith("I am ")}

    @contextmanager
    def inside(self, role: str = "mallory", deadlines: Deadlines = PATIENT) -> Iterator[Inside]:
        with self.runners.borrowed(Subscriber(role, role)) as runner:
            runner.connection.add_notice_handler(self._hear)
            try:
                with entered(runner, role, deadlines) as inside:
                    inside.set({"search_path": "lair, public"})
                    yield inside
            finally:
                runner.connection.remove_notice_handler(self._hear)

    def rows(self, sql: str, *, columns: int = 1, role: str = "mallory") -> list[tuple[bytes | None, ...]]:
        """Run without any analysis of what it calls: the entrance alone must do."""
        with self.inside(role) as inside:
            inside.set({"client_min_messages": "log"})
            return inside.rows(sql, (), (), columns=columns)

    def attempt(self, sql: str, *, columns: int = 1) -> str:
        """What came of it: the rows, or PostgreSQL's error."""
        try:
            return repr(self.rows(sql, columns=columns))
        except (psycopg.Error, Refused) as error:
            return str(error)

    def _hear(self, diagnostic: Diagnostic) -> None:
        self.reports.append(diagnostic.message_primary or "")


@pytest.fixture(scope="package", params=[15, 16, MAJOR])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    if request.param == MAJOR:
        yield request.getfixturevalue("postgres_server")
    else:
        with start_postgres(tmp_path_factory.mktemp(f"postgres-{request.param}"), request.param) as server:
            yield server


@pytest.fixture(scope="package")
def lair_dsn(server: PostgresServer) -> Iterator[str]:
    name = f"lair_{secrets.token_hex(4)}"
    dsn = server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(HOSTILE)
    yield dsn
    server.drop_database(name)


@pytest.fixture
def lair(lair_dsn: str) -> Iterator[Lair]:
    lair = Lair(lair_dsn)
    yield lair
    lair.runners.close()
    # Whatever mallory's code tried: it never was anybody else.
    assert lair.identities <= {"mallory"}


@pytest.fixture
def weak_lair(lair_dsn: str, server: PostgresServer) -> Iterator[Lair]:
    """The same with a service that is no superuser and has no entrance: it can only SET ROLE."""
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        database = admin.info.dbname
        admin.execute(UNLESS_THERE.format("weak_service LOGIN PASSWORD 'x'") + "GRANT mallory TO weak_service")
    lair = Lair(server.dsn_of(database, "weak_service", "x"), weaker_isolation=True)
    yield lair
    lair.runners.close()
