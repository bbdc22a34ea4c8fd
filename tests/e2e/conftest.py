"""The services as processes, on the servers of the test run."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psycopg
import pytest

from services.devstack.home import last_lines
from services.devstack.live_client import LiveConnection
from services.devstack.ports import free_port

SERVICES = ("capture", "registry", "recompute", "fanout", "gateway")


class Walk:
    """One of each service, from capture to gateway, on a fresh database and topics of its own."""

    def __init__(self, dsn, kafka, prefix, directory):
        self.dsn = dsn
        self._directory = directory
        self._processes = {}
        self._ports = {name: free_port() for name in SERVICES}
        self.gateway_port = free_port()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")},
            "TIDEWIRE_POSTGRES_DSN": dsn,
            "TIDEWIRE_KAFKA_BOOTSTRAP": kafka,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": prefix,
            "TIDEWIRE_CAPTURE_HEARTBEAT_S": "1",
            "TIDEWIRE_CAPTURE_SWEEP_S": "0.3",
            "TIDEWIRE_CAPTURE_WAL_SENDER_TIMEOUT_MS": "2000",
            "TIDEWIRE_RECOMPUTE_MASTER": "local[2]",
            "TIDEWIRE_RECOMPUTE_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "TIDEWIRE_RECOMPUTE_FOLDER": str(directory / "recompute"),
            "TIDEWIRE_RECOMPUTE_WORKER_ID": "walk",
            "TIDEWIRE_GATEWAY_PORT": str(self.gateway_port),
        }

    @property
    def gateway_dsn(self):
        parts = psycopg.conninfo.conninfo_to_dict(self.dsn)
        return psycopg.conninfo.make_conninfo(**{**parts, "host": "127.0.0.1", "port": self.gateway_port})

    def start(self, name):
        environ = {**self._environ, "TIDEWIRE_HTTP_PORT": str(self._ports[name])}
        with self._log(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"services.{name}"], stdout=output, stderr=output, env=environ
            )

    def start_all(self, within_s=180.0):
        for name in SERVICES:
            self.start(name)
        for name in SERVICES:
            self.wait_ready(name, within_s)

    def wait_ready(self, name, within_s=180.0):
        deadline = time.monotonic() + within_s
        while not self._ready(name):
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready:\n{last_lines(self._log(name), 40)}")
            time.sleep(0.1)

    def kill(self, name):
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait()

    def connect(self):
        return psycopg.connect(self.dsn, autocommit=True)

    def live(self):
        return LiveConnection(self.gateway_dsn, timeout_s=120.0)

    def end(self):
        for process in self._processes.values():
            process.terminate()
        for name, process in self._processes.items():
            try:
                assert process.wait(60) == 0, f"{name} ended badly:\n{last_lines(self._log(name), 40)}"
            finally:
                process.kill()

    def _log(self, name):
        return self._directory / f"{name}.log"

    def _ready(self, name):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[name]}/readyz", timeout=2) as answer:
                return answer.status == 200
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return False


@pytest.fixture(scope="module")
def walk(postgres_server, kafka, tmp_path_factory):
    """The whole road, ready."""
    name = f"walk_{os.getpid()}"
    dsn = postgres_server.create_database(name)
    made = Walk(dsn, kafka.bootstrap, f"{name}.", tmp_path_factory.mktemp("walk"))
    try:
        made.start_all()
        yield made
        made.end()
    finally:
        for process in made._processes.values():
            process.kill()
            process.wait()
        postgres_server.drop_database(name)
