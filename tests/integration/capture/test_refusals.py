"""What capture refuses, it refuses in one sentence and with a code; what may pass, it waits for and says so."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg2 import connect as connect_for_replication
from psycopg2.extras import LogicalReplicationConnection

from services.devstack.ports import free_port
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.kafka import KafkaBroker, start_kafka
from tests.fixtures.postgres import VERSIONS, PostgresServer, bin_of, start_postgres
from tests.fixtures.waiting import wait_until

# The wheels bring no second output plugin; Debian's packages do.
WITH_OTHER_PLUGIN = next((v for v in VERSIONS if (bin_of(v).parent / "lib" / "test_decoding.so").exists()), None)


class Refusal:
    """How a capture that was not let in ended: its code, and what it said on stderr."""

    def __init__(self, code: int, stderr: str) -> None:
        self.code = code
        self.lines = stderr.splitlines()

    def is_one_sentence_with(self, *words: str) -> bool:
        (line,) = self.lines
        return self.code == 2 and line.startswith("capture: ") and all(word in line for word in words)


@pytest.fixture
def refused(kafka: KafkaBroker, topic_prefix: str) -> Callable[..., Refusal]:
    """Runs a capture that must end by itself."""

    def run(dsn: str, **settings: str) -> Refusal:
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")},
            "TIDEWIRE_POSTGRES_DSN": dsn,
            "TIDEWIRE_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": topic_prefix,
            **{f"TIDEWIRE_{name.upper()}": value for name, value in settings.items()},
        }
        done = subprocess.run(
            [sys.executable, "-m", "services.capture"], env=environ, capture_output=True, text=True, timeout=90
        )
        return Refusal(done.returncode, done.stderr)

    return run


@pytest.fixture(scope="module")
def not_logical(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server as PostgreSQL comes: its WAL is for physical replication only."""
    with start_postgres(tmp_path_factory.mktemp("replica"), settings={"wal_level": "replica"}) as server:
        yield server


@pytest.fixture
def role(database: str) -> Iterator[Callable[[str], str]]:
    """Makes a role with these attributes and gives its DSN."""
    made: list[str] = []

    def make(attributes: str) -> str:
        name = f"guest_{os.getpid()}_{len(made)}"
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'guest' {}").format(sql.Identifier(name), sql.SQL(attributes))
            )
        made.append(name)
        return make_conninfo(database, user=name, password="guest")

    yield make
    with psycopg.connect(database, autocommit=True) as connection:
        for name in made:
            connection.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(sql.Identifier(name)))


def slot_names(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"
        )
        return [name for (name,) in rows]


def test_a_server_whose_wal_is_not_logical_is_refused(not_logical: PostgresServer, refused: Callable[..., Refusal]):
    refusal = refused(not_logical.dsn)
    assert refusal.is_one_sentence_with("wal_level is 'replica'", "ALTER SYSTEM SET wal_level = 'logical'")


def test_a_role_that_may_not_replicate_is_refused_with_the_remedy(role, refused: Callable[..., Refusal]):
    dsn = role("NOREPLICATION")
    name = conninfo_to_dict(dsn)["user"]
    assert refused(dsn).is_one_sentence_with("may not replicate", f'ALTER ROLE "{name}" REPLICATION')


def test_a_role_that_may_not_create_anything_is_refused_with_the_remedy(role, refused: Callable[..., Refusal]):
    dsn = role("REPLICATION")
    assert refused(dsn).is_one_sentence_with("may not create schemas", "GRANT CREATE ON DATABASE")


def test_a_wrong_password_is_refused_and_not_shown(database: str, refused: Callable[..., Refusal]):
    refusal = refused(make_conninfo(database, password="sesame-open"))
    assert refusal.is_one_sentence_with("password authentication failed", "TIDEWIRE_POSTGRES_DSN")
    assert "sesame-open" not in refusal.lines[0]


def test_a_database_that_does_not_exist_is_refused(database: str, refused: Callable[..., Refusal]):
    refusal = refused(make_conninfo(database, dbname="nowhere"))
    assert refusal.is_one_sentence_with('database "nowhere" does not exist', "TIDEWIRE_POSTGRES_DSN")


def test_an_unknown_setting_is_refused_by_its_name(database: str, refused: Callable[..., Refusal]):
    assert refused(database, capture_slto="x").is_one_sentence_with("TIDEWIRE_CAPTURE_SLTO", "TIDEWIRE_CAPTURE_SLOT")


def test_a_setting_that_is_no_number_is_refused_by_its_name(database: str, refused: Callable[..., Refusal]):
    assert refused(database, capture_heartbeat_s="often").is_one_sentence_with("TIDEWIRE_CAPTURE_HEARTBEAT_S")


@pytest.mark.skipif(WITH_OTHER_PLUGIN is None, reason="no PostgreSQL here has the plugin test_decoding")
def test_a_slot_of_another_plugin_is_refused_and_left_alone(tmp_path: Path, refused: Callable[..., Refusal]):
    with start_postgres(tmp_path / "contrib", version=WITH_OTHER_PLUGIN) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('someone_elses', 'test_decoding')")
        refusal = refused(server.dsn, capture_slot="someone_elses")
        assert refusal.is_one_sentence_with("'someone_elses'", "plugin test_decoding", "TIDEWIRE_CAPTURE_SLOT")
        assert slot_names(server.dsn) == ["someone_elses"]


def test_a_slot_of_another_database_is_refused_and_left_alone(
    database: str, postgres_server: PostgresServer, refused: Callable[..., Refusal]
):
    slot = f"neighbour_{os.getpid()}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as neighbour:
        neighbour.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        try:
            refusal = refused(database, capture_slot=slot)
            assert refusal.is_one_sentence_with(f"{slot!r}", "database app", "TIDEWIRE_CAPTURE_SLOT")
            assert slot in slot_names(postgres_server.dsn)
        finally:
            neighbour.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_a_physical_slot_is_refused_and_left_alone(database: str, refused: Callable[..., Refusal]):
    slot = f"standby_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_create_physical_replication_slot(%s)", [slot])
        try:
            assert refused(database, capture_slot=slot).is_one_sentence_with(f"{slot!r}", "TIDEWIRE_CAPTURE_SLOT")
        finally:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def test_a_slot_that_a_living_capture_holds_is_refused_and_the_living_one_goes_on(
    captured: CapturedDatabase, refused: Callable[..., Refusal]
):
    living = captured.start().wait_ready()
    started = time.monotonic()
    refusal = refused(captured.dsn, capture_slot_wait_s="2")
    assert refusal.is_one_sentence_with("'tidewire' is in use by server process", "TIDEWIRE_CAPTURE_SLOT")
    assert time.monotonic() - started >= 2
    assert living.ready()


def test_a_slot_that_a_stranger_reads_is_refused_after_the_wait(database: str, refused: Callable[..., Refusal]):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION strange FOR ALL TABLES")
        connection.execute("SELECT pg_create_logical_replication_slot('tidewire', 'pgoutput')")
    stranger = connect_for_replication(database, connection_factory=LogicalReplicationConnection)
    try:
        cursor = stranger.cursor()
        cursor.start_replication("tidewire", options={"proto_version": "1", "publication_names": "strange"})
        refusal = refused(database, capture_slot_wait_s="2")
        assert refusal.is_one_sentence_with(f"is in use by server process {stranger.info.backend_pid}")
    finally:
        stranger.close()


def readiness(port: int) -> tuple[int, str]:
    """What /readyz answers: the status and the reason."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status, json.load(answer)["reason"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["reason"]
    except OSError as error:
        return 0, str(error)


def test_capture_waits_for_a_postgres_that_is_not_there_and_says_so(captured_at, tmp_path: Path):
    with start_postgres(tmp_path / "late") as server:
        captured = captured_at(server.dsn)
        server.kill()
        capture = captured.start()
        absent = f"PostgreSQL (host=127.0.0.1 port={server.port}"
        wait_until(lambda: absent in readiness(capture.port)[1], lambda: readiness(capture.port), 30)
        # It goes on trying, and goes on saying why it is not ready: not only between two attempts.
        until = time.monotonic() + 4
        while time.monotonic() < until:
            status, reason = readiness(capture.port)
            assert status == 503 and absent in reason
        assert capture.process.poll() is None
        server.restart()
        capture.wait_ready()
        capture.terminate()


def test_capture_waits_for_a_kafka_that_is_not_there_and_says_so(database: str, tmp_path: Path, captured_at):
    with start_kafka(tmp_path / "late") as broker:
        captured = captured_at(database)
        captured.kafka = type(captured.kafka)(bootstrap=broker.bootstrap, topic_prefix="late.")
        broker.kill()
        capture = captured.start()
        absent = f"Kafka at {broker.bootstrap} does not answer"
        wait_until(lambda: absent in readiness(capture.port)[1], lambda: readiness(capture.port), 40)
        until = time.monotonic() + 12
        while time.monotonic() < until:
            status, reason = readiness(capture.port)
            assert status == 503 and absent in reason
        assert capture.process.poll() is None
        broker.restart()
        capture.wait_ready(90)
        with captured.connect() as connection:
            connection.execute("CREATE TABLE goods (id int PRIMARY KEY); INSERT INTO goods VALUES (1)")
        assert captured.events_up_to_now()
        capture.terminate()


def test_a_port_for_health_that_is_taken_is_refused(database: str, refused: Callable[..., Refusal]):
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        refusal = refused(database, http_port=str(taken.getsockname()[1]))
        assert refusal.is_one_sentence_with("cannot listen", "TIDEWIRE_HTTP_PORT")
