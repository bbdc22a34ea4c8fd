"""The embedded stack as a user meets it: up, crashes, down, and nothing left."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jwt
import psutil
import psycopg
import pytest
import redis
from confluent_kafka.admin import AdminClient

from services.devstack import launch
from services.devstack.identity import OTHER_USERS
from services.devstack.ports import free_port
from services.devstack.postgres import Postgres, wheel_bin
from services.devstack.settings import PROJECT
from tests.fixtures.devstack import Devstack
from tests.fixtures.embedded import Embedded
from tests.fixtures.http_port import ask, basic
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow


def living(pids: set[int]) -> set[int]:
    """Those of the processes that run; one that nobody has reaped yet is dead."""
    return {
        pid
        for pid in pids
        if psutil.pid_exists(pid) and (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z")
    }


def answers(endpoints: dict) -> tuple:
    """What each server says of itself through its published address."""
    with psycopg.connect(endpoints["postgres"]) as connection:
        level = connection.execute("SHOW wal_level").fetchone()
    brokers = AdminClient({"bootstrap.servers": endpoints["kafka"]}).list_topics(timeout=10).brokers
    with redis.Redis.from_url(endpoints["redis"]) as client:
        persistence = client.config_get("append*")
    return level, len(brokers), persistence["appendonly"], persistence["appendfsync"]


def test_every_part_answers_at_its_endpoint(devstack):
    assert answers(devstack.endpoints) == (("logical",), 1, "yes", "always")


def test_the_admin_token_is_signed_for_a_dba(devstack):
    secret = json.loads((devstack.home / "credentials.json").read_text())["jwt_secret"]
    assert jwt.decode(devstack.endpoints["admin_token"], secret, algorithms=["HS256"])["role"] == "dba"


def test_the_http_port_knows_the_stack_s_own_user(devstack):
    """On a port of its own: `gateway_http` is not the health page."""
    parts = psycopg.conninfo.conninfo_to_dict(devstack.endpoints["postgres"])
    host, port = devstack.endpoints["gateway_http"].removeprefix("http://").split(":")
    answer = ask(int(port), "/api/v1/whoami", headers=basic(parts["user"], parts["password"]))
    assert (host, answer.status, answer.body["service_role"]) == ("127.0.0.1", 200, "system")
    assert ask(int(port), "/readyz").status == 404


def test_the_http_port_takes_the_admin_token(devstack):
    port = int(devstack.endpoints["gateway_http"].rpartition(":")[2])
    answer = ask(port, "/api/v1/whoami", headers={"Authorization": f"Bearer {devstack.endpoints['admin_token']}"})
    assert (answer.status, answer.body["name"], answer.body["service_role"]) == (200, "devstack", "dba")


def test_no_other_user_may_read_the_secrets(devstack):
    files = [
        devstack.home / "credentials.json",
        devstack.home / "endpoints.json",
        *devstack.home.glob("data/redis/*.conf"),
    ]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_no_other_user_may_read_anything_of_the_stack(devstack):
    """Data, logs, checkpoints: whatever the parts wrote since they started."""
    opened = []
    for path in (devstack.home, *devstack.home.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a segment or a checkpoint that has just been replaced
            if not path.is_symlink() and path.stat().st_mode & 0o077:
                opened.append(str(path))
    assert opened == []


def test_a_wrong_password_is_refused(devstack):
    strange = devstack.endpoints["postgres"].split("@")[1]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://postgres:wrong@{strange}")


def test_up_again_changes_nothing(devstack):
    before = devstack.endpoints
    again = devstack("up")
    assert (again.returncode, "is up already" in again.stdout, devstack.endpoints) == (0, True, before)


@pytest.mark.parametrize("part", ["redis", "postgres", "kafka"])
def test_a_killed_part_comes_back_under_a_new_process_id(devstack, part):
    before = devstack.endpoints["services"][part]
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: devstack.endpoints["services"][part] != before, lambda: devstack.endpoints, 20)
    assert devstack("up").returncode == 0
    row = next(line for line in devstack("status").stdout.splitlines() if line.startswith(part))
    assert row.split()[1:4] == ["ready", str(devstack.endpoints["services"][part]), "1"]
    assert row.endswith("killed by SIGKILL")


def test_status_says_why_a_part_is_not_ready_and_the_supervisor_restarts_it(devstack):
    before = devstack.endpoints["services"]["redis"]
    os.kill(before, signal.SIGSTOP)
    stopped = devstack("status")
    row = next(line for line in stopped.stdout.splitlines() if line.startswith("redis"))
    assert (stopped.returncode, "not ready: does not answer" in row) == (1, True), stopped.stdout
    wait_until(lambda: devstack.endpoints["services"]["redis"] != before, lambda: devstack("status").stdout, 60)
    again = wait_until(lambda: devstack("status").stdout if devstack("status").returncode == 0 else None, "ready")
    row = next(line for line in again.splitlines() if line.startswith("redis"))
    assert row.split()[1] == "ready" and row.endswith("s: does not answer")


def test_nothing_survives_a_killed_supervisor_and_up_brings_all_back(devstack):
    before, processes = devstack.endpoints, devstack.processes()
    os.kill(devstack.supervisor, signal.SIGKILL)
    wait_until(lambda: not living(processes), lambda: living(processes), 10)
    assert devstack("status").returncode == 1
    assert devstack("up").returncode == 0
    assert {key: devstack.endpoints[key] for key in ("postgres", "kafka", "redis")} == {
        key: before[key] for key in ("postgres", "kafka", "redis")
    }
    assert answers(devstack.endpoints)[0] == ("logical",)


def test_a_port_that_is_taken_is_named(devstack, tmp_path):
    port = devstack.endpoints["kafka"].rpartition(":")[2]
    refused = Devstack(tmp_path / "home")("up", TIDEWIRE_DEVSTACK_KAFKA_PORT=port)
    assert (refused.returncode, f"port {port} of 127.0.0.1 is in use" in refused.stderr) == (2, True)


def test_an_unknown_setting_is_named(devstack):
    refused = devstack("status", TIDEWIRE_DEVSTACK_PROT="1")
    assert (refused.returncode, "`prot`" in refused.stderr) == (2, True)


def test_down_leaves_nothing(devstack):
    processes = devstack.processes()
    assert devstack("down").returncode == 0
    assert living(processes) == set()
    assert not (devstack.home / "endpoints.json").exists()
    assert devstack("status").returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_postgres_runs_for_root_where_user_namespaces_are_forbidden(tmp_path):
    tmp_path.chmod(0o700)
    fallback = Postgres(
        bin=wheel_bin(), data=tmp_path / "data", port=free_port(), password="secret", runs_as=OTHER_USERS[0]
    )
    server = Embedded(fallback, tmp_path / "postgres.log")
    server.start()
    try:
        assert psutil.Process(server.pid).uids().effective == OTHER_USERS[0].owner
    finally:
        server.stop()


@pytest.mark.parametrize("absent", ["java", "mvn"])
def test_a_missing_prerequisite_is_one_sentence(absent, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in {"java", "mvn"} - {absent}:
        (programs / program).symlink_to(shutil.which(program))
    script = PROJECT / "services" / "devstack" / "bootstrap.py"
    done = subprocess.run([sys.executable, "-I", script], env={"PATH": str(programs)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"`{absent}` is not on the PATH: install it" in done.stderr


def test_a_child_whose_parent_is_gone_does_not_start():
    command = [sys.executable, launch.__file__, "--parent", "1", "--death-signal", "9", "--", "echo", "started"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
