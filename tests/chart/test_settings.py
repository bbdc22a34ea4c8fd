"""The environment that chart and compose give to a service is one that its own settings take."""

import re
import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.chassis.settings import BadSetting, load
from services.devstack import chart_reference
from services.devstack.settings_reference import SERVICES
from tests.chart.rendering import CHART, LEAST, SIZES, container, pod, put, render
from tests.chart.value_cases import A_SETTING, OF_GATEWAY, OF_SERVERS, merged
from tests.fixtures.installed import PROJECT

COMPOSE = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"]
FULL = merged(
    *(put(path, value) for path, (value, _) in OF_SERVERS.items() if path not in ("kafka.securityProtocol",)),
    *(put(path, value) for path, (value, _) in OF_GATEWAY.items() if ".autoscaling" not in path and "jwks" not in path),
    *(put(f"components.{name}.settings", value) for name, value in A_SETTING.items()),
)
CASES = {name: ({}, CHART / f"values-{name}.yaml") for name in SIZES} | {"least": ({}, LEAST), "full": (FULL, LEAST)}
# What a Secret would hold.
HELD = {
    "DSN": "postgresql://role:word@db:5432/app",
    "REDIS_URL": "rediss://:word@redis:6379/0",
    "SEAL_KEY": "k" * 32,
    "JWT_SECRET": "j" * 32,
    "USERNAME": "name",
    "PASSWORD": "word",
}


def environment(workload: dict[str, Any], directory: Path) -> dict[str, str]:
    """As the container would see it, with the mounted files below a directory of ours."""
    found = {}
    for entry in container(workload)["env"]:
        if "value" in entry:
            found[entry["name"]] = entry["value"].replace("/etc/tidewire", str(directory))
        elif "fieldRef" in entry["valueFrom"]:
            found[entry["name"]] = "pod-0"
        else:
            [found[entry["name"]]] = [value for end, value in HELD.items() if entry["name"].endswith(end)]
    for mount in container(workload)["volumeMounts"]:
        folder = directory / Path(mount["mountPath"]).name
        folder.mkdir(exist_ok=True)
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (folder / name).touch()
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_rendered_environment_is_taken_by_every_service(case: str, tmp_path: Path):
    values, file = CASES[case]
    objects = render(values, file)
    workloads = [each for each in objects.values() if each["kind"] in ("Deployment", "StatefulSet")]
    names = [pod(each)["containers"][0]["name"] for each in workloads]
    assert set(names) == set(SERVICES)
    for name, workload in zip(names, workloads, strict=True):
        load(SERVICES[name], environment(workload, tmp_path))


def test_a_name_that_the_service_does_not_know_would_be_seen(tmp_path: Path):
    environ = environment(render()["Deployment fanout"], tmp_path)
    with pytest.raises(BadSetting, match="TIDEWIRE_FANOUT_SPEED"):
        load(SERVICES["fanout"], {**environ, "TIDEWIRE_FANOUT_SPEED": "1"})


def test_the_values_arrive_as_they_were_given(tmp_path: Path):
    gateway = load(SERVICES["gateway"], environment(render(FULL)["Deployment gateway"], tmp_path))
    assert (gateway.cdc.retention_events, gateway.kafka.bootstrap) == (1_000_000, "a:1,b:2")
    assert gateway.gateway.http.cors_origins == ("https://app.example.com",)
    assert "t-tidewire-gateway.live.svc" in gateway.gateway.http.hosts


def test_the_schema_knows_the_settings_that_the_services_have():
    schema = chart_reference.SCHEMA.read_text()
    assert schema == chart_reference.render(schema), "run `make settings`"


@pytest.mark.parametrize("service", SERVICES)
def test_the_environment_of_compose_is_taken_by_every_service(service: str):
    given = {name: _filled(value) for name, value in COMPOSE[service]["environment"].items()}
    load(SERVICES[service], given)
    with pytest.raises(BadSetting):
        load(SERVICES[service], {**given, "TIDEWIRE_KAFKA_BOOTSTRAB": "x"})


def test_every_part_of_compose_that_stays_says_whether_it_is_well():
    assert {name for name, part in COMPOSE.items() if part["restart"] != "no" and "healthcheck" not in part} == set()


def test_compose_gives_no_right_and_no_writable_root():
    for name in SERVICES:
        part = COMPOSE[name]
        assert (part["read_only"], part["cap_drop"], part["security_opt"]) == (
            True,
            ["ALL"],
            ["no-new-privileges:true"],
        )


def test_the_image_has_one_argument_and_the_builder_only_what_it_copies():
    lines = (PROJECT / "services" / "Dockerfile").read_text().splitlines()
    assert {line for line in lines if line.startswith("ARG")} == {"ARG SERVICE"}
    copied = {
        word.removeprefix("./").split("/")[0]
        for line in lines
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    }
    let_in = {
        line[1:].split("/")[0] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert copied == let_in
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]


def _filled(value: str) -> str:
    """As compose fills ${NAME:?words} and ${NAME:-default} in."""
    return re.sub(
        r"\$\{[A-Z_]+(:-([^}]*))?[^}]*\}", lambda found: secrets.token_hex(24) if found[1] is None else found[2], value
    )
