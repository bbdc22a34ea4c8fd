"""Where Docker answers, the servers of the tests are containers; here of an engine that starts embedded servers."""

from pathlib import Path

import psycopg
import pytest
import redis
from testcontainers.core.config import testcontainers_config

from services.devstack.kafka import SETTINGS as KAFKA_SETTINGS
from services.devstack.kafka import VERSION, Kafka
from services.devstack.ports import free_port
from services.devstack.postgres import MAJOR, Postgres, wheel_bin
from services.devstack.redis import Redis, wheel_program
from services.devstack.settings import Settings
from services.devstack.stack import java
from tests.fixtures.docker import engine_answers
from tests.fixtures.docker_engine import engine
from tests.fixtures.embedded import Embedded
from tests.fixtures.kafka import contain_kafka
from tests.fixtures.postgres import contain_postgres
from tests.fixtures.redis import contain_redis


def bound_port(wanted: dict) -> int:
    """The port of this machine that the container's only port is bound to."""
    ((_, [binding]),) = wanted["HostConfig"]["PortBindings"].items()
    return int(binding["HostPort"])


def environ_of(wanted: dict) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in wanted["Env"] or [])


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """An engine that answers, where the fixtures look for one."""

    def server_of(wanted: dict) -> Embedded:
        port, image = bound_port(wanted), wanted["Image"].partition(":")[0]
        if image == "redis":
            part = Redis(program=wheel_program(), data=tmp_path / "redis", port=port, password=wanted["Cmd"][-1])
        elif image == "postgres":
            password = environ_of(wanted)["POSTGRES_PASSWORD"]
            part = Postgres(bin=wheel_bin(), data=tmp_path / "postgres", port=port, password=password)
        else:
            jars, other = Path(Settings().jars) / "kafka", free_port(frozenset({port}))
            part = Kafka(java=java(), jars=jars, data=tmp_path / "kafka", port=port, controller_port=other)
        return Embedded(part, tmp_path / f"{part.name}.log")

    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    with engine(server_of) as served:
        monkeypatch.setenv("DOCKER_HOST", served.address)
        engine_answers.cache_clear()
        yield served
    engine_answers.cache_clear()


def test_an_engine_that_answers_is_found(docker):
    assert engine_answers()


def test_redis_in_a_container_keeps_its_port_over_a_kill(docker):
    with contain_redis() as server:
        client = redis.Redis.from_url(server.url)
        client.set("cursor", "7")
        server.kill()
        server.restart()
        assert redis.Redis.from_url(server.url).get("cursor") == b"7"
    ((name, wanted),) = docker.created.items()
    assert (wanted["Image"], wanted["Cmd"][:3]) == ("redis:7", ["redis-server", "--appendonly", "yes"])
    assert docker.asked == [(name, "start"), (name, "kill"), (name, "restart"), (name, "remove")]


def test_postgres_in_a_container_has_our_settings_and_database(docker):
    with contain_postgres() as server, psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT current_database(), current_user").fetchone() == ("app", "postgres")
    (wanted,) = docker.created.values()
    assert (wanted["Image"], "wal_level=logical" in wanted["Cmd"]) == (f"postgres:{MAJOR}", True)
    assert environ_of(wanted)["POSTGRES_DB"] == "app"


def test_kafka_in_a_container_is_told_where_its_clients_find_it(docker):
    with contain_kafka() as broker:
        assert broker.bootstrap == f"127.0.0.1:{bound_port(*docker.created.values())}"
    (wanted,) = docker.created.values()
    environ = environ_of(wanted)
    assert wanted["Image"] == f"apache/kafka:{VERSION}"
    assert environ["KAFKA_ADVERTISED_LISTENERS"] == f"BROKER://{broker.bootstrap}"
    assert {f"KAFKA_{key.replace('.', '_').upper()}" for key in KAFKA_SETTINGS} <= set(environ)
