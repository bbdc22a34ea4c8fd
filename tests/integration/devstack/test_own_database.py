"""`make up DSN=…`: everything else of the stack, started around a PostgreSQL that is there already."""

import json

import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from services.devstack import own_database
from services.devstack.errors import DatabaseNotFit, NotAsked
from tests.fixtures.devstack import Devstack
from tests.fixtures.postgres import start_postgres

OF_TIDEWIRE = """
SELECT to_regnamespace('_tidewire') IS NOT NULL, (SELECT count(*) FROM pg_replication_slots),
       (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_event_trigger),
       (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'tidewire%')
"""
NOTHING = (False, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A server of the user's own, of another major version than the stack would bring, with a table."""
    with start_postgres(tmp_path_factory.mktemp("own"), 16) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE parcels (id int PRIMARY KEY, weight numeric)")
            connection.execute("INSERT INTO parcels VALUES (1, 2.50)")
        yield server


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = Devstack(tmp_path_factory.mktemp("around") / "home")
    yield stack
    stack("down", "--wipe")


def of_tidewire(own) -> tuple:
    with psycopg.connect(own.dsn) as connection:
        return connection.execute(OF_TIDEWIRE).fetchone()


def parcels(stack) -> list[dict]:
    """The live result of a query, by `tidewire watch`."""
    done = stack.shell('tidewire watch --once --json "SELECT id, weight FROM parcels ORDER BY id"')
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[0])["rows"]


def test_nothing_is_installed_unasked(own, stack):
    refused = stack.shell(f"make up DSN='{own.dsn}'")
    assert (refused.returncode, of_tidewire(own)) == (2, NOTHING)
    assert "This database can be watched." in refused.stdout and "the schema _tidewire" in refused.stdout
    assert "run it again with YES=1" in refused.stderr
    assert stack("status").returncode == 1


def test_what_doctor_finds_missing_is_said_and_nothing_starts(stack, tmp_path):
    with start_postgres(tmp_path, 16, settings={"wal_level": "replica"}) as server:
        refused = stack.shell(f"make up DSN='{server.dsn}' YES=1")
    assert (refused.returncode, "wal_level = 'logical'" in refused.stdout) == (2, True)
    assert "cannot be watched yet" in refused.stderr


@pytest.mark.parametrize(("answer", "agrees"), [(True, True), (False, False), (None, False)])
def test_a_person_is_asked(own, answer, agrees):
    asked = []
    ask = None if answer is None else lambda question: asked.append(question) or answer
    try:
        own_database.examine(own.dsn, agreed=False, ask=ask, say=lambda _: None)
    except NotAsked:
        assert not agrees
    else:
        assert agrees
    assert asked == ([] if answer is None else ["install it? [y/N] "])


def test_a_database_that_does_not_answer_is_named_without_its_password():
    with pytest.raises(DatabaseNotFit, match=r"host=127\.0\.0\.1 port=1 dbname=app user=u") as caught:
        own_database.examine("postgresql://u:hidden@127.0.0.1:1/app", agreed=True, ask=None, say=lambda _: None)
    assert "hidden" not in str(caught.value)


@pytest.mark.slow
def test_the_stack_runs_around_a_database_and_leaves_it_alone(own, stack):
    raised = stack.shell(f"make up DSN='{own.dsn}' YES=1")
    assert raised.returncode == 0, raised.stdout + raised.stderr
    assert stack.endpoints["postgres"] == own.dsn
    parts = psycopg.conninfo.conninfo_to_dict(own.dsn)
    through = psycopg.conninfo.conninfo_to_dict(stack.endpoints["gateway_pg"])
    assert {**parts, "port": through["port"]} == through
    assert set(stack.endpoints["services"]) == {
        "kafka",
        "redis",
        "capture",
        "registry",
        "recompute",
        "fanout",
        "gateway",
        "retention",
    }
    assert parcels(stack) == [{"id": "1", "weight": "2.50"}]
    status = stack.shell("make status")
    assert status.returncode == 0
    assert status.stdout.splitlines()[1].split()[:2] == ["postgres", "yours"]

    for again in ("make up", f"make up DSN='{own.dsn}'"):
        done = stack.shell(again)
        assert (done.returncode, "is up already" in done.stdout) == (0, True)
    other = stack.shell("make up DSN=postgresql://127.0.0.1:1/other YES=1")
    assert (other.returncode, "around other servers" in other.stderr) == (2, True)
    demo = stack.shell("make demo ONCE=1")
    assert (demo.returncode, "your own database" in demo.stderr) == (2, True)

    ended = stack.shell("make down")
    assert (ended.returncode, "its slot keeps WAL" in ended.stdout) == (0, True)
    schema, slots, publications, triggers, roles = of_tidewire(own)
    assert schema and slots == 1 and publications and triggers and roles


@pytest.mark.slow
def test_kafka_and_redis_may_be_the_users_own_too(own, stack, kafka, redis_server):
    """The database is prepared by the test above: nobody is asked again."""
    raised = stack.shell(f"make up DSN='{own.dsn}' KAFKA={kafka.bootstrap} REDIS='{redis_server.url}'")
    assert raised.returncode == 0, raised.stdout + raised.stderr
    assert (stack.endpoints["kafka"], stack.endpoints["redis"]) == (kafka.bootstrap, redis_server.url)
    assert set(stack.endpoints["services"]) == {
        "capture",
        "registry",
        "recompute",
        "fanout",
        "gateway",
        "retention",
    }
    with psycopg.connect(own.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO parcels VALUES (2, 0.75)")
    assert parcels(stack) == [{"id": "1", "weight": "2.50"}, {"id": "2", "weight": "0.75"}]
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
    assert {"tidewire.changes", "tidewire.deltas"} <= set(topics)
    tail = stack.shell("tidewire tail --from earliest --exit-at-end --json")
    assert (tail.returncode, "0.75" in tail.stdout) == (0, True), tail.stderr

    removed = stack.shell(f"make uninstall DSN='{own.dsn}'")
    assert removed.returncode == 0, removed.stderr
    assert stack.shell("make down").returncode == 0
    assert of_tidewire(own) == NOTHING
    with psycopg.connect(own.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM parcels").fetchone() == (2,)
