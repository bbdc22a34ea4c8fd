"""The HTTP port in a real gateway process: where it listens, that it drains, what it logs."""

import json
import os
import signal
import socket
import threading
import time
import urllib.error
import urllib.request

import psutil
import pytest

from services.devstack.ports import free_port
from tests.fixtures.gateway import start_gateway
from tests.fixtures.http_port import SECRET, ask, basic, token
from tests.fixtures.http_roles import PASSWORD
from tests.fixtures.waiting import wait_until


def events(gateway, name):
    lines = (json.loads(line) for line in gateway.log.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == name]


@pytest.fixture
def gateway(http_database, kafka, tmp_path):
    settings = {"http_port": str(free_port()), "http_jwt_secret": SECRET}
    with start_gateway(
        tmp_path, dsn=http_database.dsn, kafka=kafka.bootstrap, prefix=f"http_{os.getpid()}.", settings=settings
    ) as started:
        started.doors = int(settings["http_port"])
        yield started


def test_a_request_under_way_is_answered_before_the_gateway_ends(gateway, http_database):
    """PostgreSQL stands still while it checks a password, the gateway is told to stop, PostgreSQL goes on."""
    answers = []
    held = threading.Thread(
        target=lambda: answers.append(ask(gateway.doors, "/api/v1/whoami", headers=basic("alice", PASSWORD)))
    )
    os.kill(http_database.pid, signal.SIGSTOP)
    try:
        held.start()
        wait_until(lambda: waiting_for(http_database.port, gateway.pid), "the gateway asks PostgreSQL")
        os.kill(gateway.pid, signal.SIGTERM)
        wait_until(lambda: not listens(gateway.doors), "no new connections are taken")
        assert answers == []
    finally:
        os.kill(http_database.pid, signal.SIGCONT)
    held.join(20)
    assert [(answer.status, answer.body["name"]) for answer in answers] == [(200, "alice")]
    assert gateway.stop() == 0


def waiting_for(port: int, pid: int) -> bool:
    """Whether a process has a connection to this port of 127.0.0.1 that it opened for a log-in."""
    return any(
        connection.raddr and connection.raddr.port == port and connection.status == psutil.CONN_ESTABLISHED
        for connection in psutil.Process(pid).net_connections()
    )


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_health_is_on_its_own_port(gateway):
    assert ask(gateway.doors, "/readyz").status == 404
    assert ask(gateway.doors, "/metrics").status == 404
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{gateway.http_port}/api/v1/whoami", timeout=5)
    refused.value.close()
    assert refused.value.code == 404


def test_the_access_log_has_no_secrets(gateway):
    good = token({"sub": "shop", "exp": time.time() + 60})
    ask(gateway.doors, f"/api/v1/whoami?token={good}&password=hunter2", headers={"Authorization": f"Bearer {good}"})
    ask(gateway.doors, "/api/v1/whoami", headers=basic("alice", PASSWORD))
    ask(gateway.doors, "/api/v1/whoami", headers=basic("alice", "hunter2"))
    ask(gateway.doors, "/api/v1/whoami", headers={"Authorization": "Bearer hunter2.hunter2.hunter2"})
    wait_until(lambda: len(events(gateway, "http_answered")) == 4, "four answers in the log")
    shown = [(event["path"], event["status"], event["caller"]) for event in events(gateway, "http_answered")]
    assert shown == [
        ("/api/v1/whoami", 200, "shop"),
        ("/api/v1/whoami", 200, "alice"),
        ("/api/v1/whoami", 401, None),
        ("/api/v1/whoami", 401, None),
    ]
    log = gateway.log.read_text()
    secrets = (good, good.split(".")[2], PASSWORD, "hunter2", SECRET, basic("alice", PASSWORD)["Authorization"][6:])
    assert [secret for secret in secrets if secret in log] == []


def test_without_a_secret_it_stays_on_loopback_and_says_so(http_database, kafka, tmp_path):
    settings = {"http_port": str(free_port()), "http_host": "0.0.0.0"}
    with start_gateway(
        tmp_path, dsn=http_database.dsn, kafka=kafka.bootstrap, prefix=f"http_{os.getpid()}.", settings=settings
    ) as gateway:
        [listening] = events(gateway, "http_listening")
        [warned] = events(gateway, "http_port_kept_on_loopback")
        assert (listening["host"], warned["wanted"], warned["level"]) == ("127.0.0.1", "0.0.0.0", "warning")
        assert ask(int(settings["http_port"]), "/api/v1/whoami", headers=basic("alice", PASSWORD)).status == 200


def test_with_a_secret_it_listens_where_it_is_told(http_database, kafka, tmp_path):
    settings = {"http_port": str(free_port()), "http_host": "0.0.0.0", "http_jwt_secret": SECRET}
    with start_gateway(
        tmp_path, dsn=http_database.dsn, kafka=kafka.bootstrap, prefix=f"http_{os.getpid()}.", settings=settings
    ) as gateway:
        assert [event["host"] for event in events(gateway, "http_listening")] == ["0.0.0.0"]
        assert events(gateway, "http_port_kept_on_loopback") == []


def test_a_port_that_is_taken_ends_the_gateway_with_a_sentence(http_database, kafka, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = start_gateway(
            tmp_path,
            dsn=http_database.dsn,
            kafka=kafka.bootstrap,
            prefix=f"http_{os.getpid()}.",
            settings={"http_port": str(port)},
        )
        words = f"cannot listen on 127.0.0.1:{port} .*TIDEWIRE_GATEWAY_HTTP_PORT"
        with pytest.raises(RuntimeError, match=words), started:
            pass
