"""docker-compose.yml and the embedded stack describe the same stack."""

import xml.etree.ElementTree as ElementTree

import pytest
import yaml

from services.devstack import bootstrap, kafka, postgres, redis, service
from services.devstack.settings import PROJECT

SERVERS = {"postgres", "kafka", "redis"}
# In the embedded stack capture installs itself; there, services are superusers. `check` runs when it is asked for.
ONCE = {"install", "check"}
COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
# A container's ports are reached from outside it.
ONLY_IN_CONTAINERS = {"TIDEWIRE_HTTP_HOST", "TIDEWIRE_GATEWAY_HOST", "TIDEWIRE_GATEWAY_HTTP_HOST"}


def test_the_services_are_the_same():
    assert set(COMPOSE) - SERVERS - ONCE == {declared.name for declared in service.DECLARED}


@pytest.mark.parametrize("declared", service.DECLARED, ids=lambda declared: declared.name)
def test_a_service_gets_the_same_settings_and_waits_for_the_same_parts(declared):
    contained = COMPOSE[declared.name]
    assert set(contained["environment"]) - ONLY_IN_CONTAINERS == {*declared.settings, service.HTTP_PORT}
    assert set(contained["depends_on"]) - ONCE == set(declared.needs)
    assert contained["build"]["args"] == {"SERVICE": declared.name}


def test_postgres_has_the_same_version_settings_user_and_database():
    contained = COMPOSE["postgres"]
    settings = dict(word.removeprefix("-c").split("=", 1) for word in contained["command"][1:])
    names = (contained["environment"]["POSTGRES_USER"], contained["environment"]["POSTGRES_DB"])
    assert (contained["image"], settings) == (f"postgres:{postgres.MAJOR}", dict(postgres.SETTINGS))
    assert names == (postgres.USER, postgres.DATABASE)


def test_kafka_has_the_same_version_and_settings():
    contained = COMPOSE["kafka"]
    wanted = {f"KAFKA_{key.replace('.', '_').upper()}": value for key, value in kafka.SETTINGS.items()}
    assert contained["image"] == f"apache/kafka:{kafka.VERSION}"
    assert wanted.items() <= contained["environment"].items()
    assert contained["environment"]["KAFKA_HEAP_OPTS"].split() == list(kafka.HEAP)


def test_the_jars_are_of_the_version_that_compose_names():
    properties = ElementTree.parse(PROJECT / "pom.xml").getroot().find("{*}properties")
    assert properties.find("{*}kafka.version").text == kafka.VERSION


def test_redis_has_the_same_settings():
    words = COMPOSE["redis"]["command"][1:]
    given = {key.removeprefix("--"): value for key, value in zip(words[::2], words[1::2], strict=True)}
    given.pop("requirepass")
    assert given == {key: value.strip('"') for key, value in redis.SETTINGS.items()}


def test_the_image_is_built_with_the_installer_of_the_set_up():
    assert bootstrap.UV in (PROJECT / "services" / "Dockerfile").read_text().split()
