"""What stands around the services: folders, files, passwords and tokens that no other user of the machine can use."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import jwt
import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from services.capture.outbound import watch
from services.changelog import barrier
from services.devstack.credentials import keep
from services.devstack.home import Home, open_log
from services.devstack.kafka import Kafka
from services.devstack.ports import free_port
from services.devstack.redis import Redis, wheel_program
from services.devstack.settings import PROJECT, Settings
from services.devstack.stack import java
from tests.fixtures.embedded import Embedded
from tests.fixtures.postgres import VERSIONS, start_postgres

HOUR_S = 3600


@pytest.fixture
def careless():
    """A user whose files everybody may read unless the program says otherwise."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    """Everything under a folder, and the folder, that another user could read, write or enter."""
    found = [root, *root.rglob("*")]
    return [str(each) for each in found if not each.is_symlink() and stat.S_IMODE(each.stat().st_mode) & 0o077]


def test_a_home_and_its_logs_are_for_their_owner(careless, tmp_path):
    home = Home(tmp_path / "home")
    (home.root / "logs").mkdir(parents=True)
    home.log("old").write_text("of a version that took no care")
    home.make()
    for name in ("old", "new"):
        open_log(home.log(name)).close()
    assert open_to_others(home.root) == []


def test_what_kafka_keeps_is_for_its_owner(careless, tmp_path):
    part = Kafka(
        java=java(),
        jars=Path(Settings().jars) / "kafka",
        data=tmp_path / "kafka",
        port=free_port(),
        controller_port=free_port(),
    )
    process = Embedded(part, tmp_path / "kafka.log")
    process.start()
    try:
        assert (open_to_others(part.data), any(part.data.rglob("*.log"))) == ([], True)
    finally:
        process.stop()


def test_what_redis_keeps_is_for_its_owner(careless, tmp_path):
    part = Redis(program=wheel_program(), data=tmp_path / "redis", port=free_port(), password="x")
    process = Embedded(part, tmp_path / "redis.log")
    process.start()
    try:
        assert (open_to_others(part.data), any(part.data.rglob("*.aof*"))) == ([], True)
    finally:
        process.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_postgres_keeps_is_for_its_owner(careless, tmp_path, version):
    with start_postgres(tmp_path / "postgres", version) as server:
        assert open_to_others(server.data) == []


@pytest.mark.parametrize("service", ["recompute", "registry"])
def test_no_folder_has_a_name_that_others_can_guess(service):
    """By default; each run has another, for its owner alone, and takes it away."""
    program = (
        "from services.chassis.folders import private_folder; "
        f"folder = private_folder(None, service={service!r}); print(folder, oct(folder.stat().st_mode & 0o777))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    ]
    assert runs[0][0] != runs[1][0]
    assert {mode for _, mode in runs} == {"0o700"}
    assert not any(Path(folder).exists() for folder, _ in runs)


def test_nobody_builds_a_name_in_the_folder_of_all():
    guilty = [
        str(path)
        for path in (PROJECT / "services").rglob("*.py")
        if "gettempdir" in path.read_text() or '"/tmp' in path.read_text()
    ]
    assert guilty == []


def test_the_admin_token_expires_and_is_renewed(tmp_path):
    secret, now_s = keep(tmp_path / "credentials.json"), time.time()
    token = secret.admin_token(now_s)
    claims = jwt.decode(token, secret.jwt_secret, algorithms=["HS256"], options={"require": ["exp"]})
    assert 12 * HOUR_S <= claims["exp"] - now_s <= 24 * HOUR_S
    assert secret.admin_token(now_s + 13 * HOUR_S) != token
    with pytest.raises(jwt.ExpiredSignatureError):
        jwt.decode(secret.admin_token(now_s - 25 * HOUR_S), secret.jwt_secret, algorithms=["HS256"])


def test_compose_has_no_default_password_and_no_superuser_but_the_installer():
    text = (PROJECT / "docker-compose.yml").read_text()
    services = yaml.safe_load(text)["services"]
    superusers = {name for name, each in services.items() if "://postgres:" in str(each.get("environment"))}
    passwords = [word for word in text.replace('"', " ").split("$") if "PASSWORD" in word.split("}")[0]]
    assert superusers == {"install"}
    assert [word for word in passwords if word.startswith("{") and ":?" not in word.split("}")[0]] == []


def test_roles_that_the_installer_made_do_their_services_work_and_no_more(tmp_path):
    roles = {name: f"tidewire_{name}" for name in ("capture", "recompute", "gateway")}
    with start_postgres(tmp_path / "postgres") as server, psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("create table public.t (a int); create table public.guarded (a int)")
        admin.execute("alter table public.guarded enable row level security; insert into public.guarded values (1)")
        words = [word for name, role in roles.items() for word in (f"--{name}", role)]
        environ = {**os.environ, "SERVICES_PASSWORD": "of-services"}
        command = [sys.executable, "-m", "services.cli", "install", "--dsn", server.dsn, *words]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=PROJECT)
        assert done.returncode == 0, done.stderr
        as_role = {
            name: psycopg.connect(make_conninfo(server.dsn, user=role, password="of-services"), autocommit=True)
            for name, role in roles.items()
        }
        installed = watch.install(as_role["capture"])
        for connection in as_role.values():
            assert len(barrier.emit(connection)) == 32
        rows = as_role["recompute"].execute("select a from public.guarded").fetchall()
        refused = 0
        for name in ("capture", "gateway"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_role[name].execute("select a from public.guarded")
            refused += 1
        for connection in as_role.values():
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("insert into _tidewire.marks (kind, content) values ('ddl', 'x')")
            connection.close()
        supers = admin.execute("select count(*) from pg_roles where rolsuper and rolname ~ '^tidewire'").fetchone()
    assert (installed.mode, installed.pending, rows, refused, supers) == (watch.Mode.STRICT, 0, [(1,)], 2, (0,))
