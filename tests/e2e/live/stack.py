"""One of each service and as many gateways as a test wants, all to be killed at will."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg

from services.devstack.ports import free_port
from tests.fixtures.walk import SERVICES, Walk

GATEWAY = "gateway"


class Stack(Walk):
    """A walk with more gateways beside the first."""

    def __init__(self, dsn: str, kafka: str, prefix: str, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(dsn, kafka, prefix, directory, settings)
        self.kafka, self.prefix = kafka, prefix

    def add_gateway(self, name: str, port: int | None = None, **settings: str) -> int:
        """Start another one and wait for it; returns the port of PostgreSQL's protocol."""
        own_port = free_port() if port is None else port
        self._ports[name] = free_port()
        environ = {
            **self._environ,
            "TIDEWIRE_HTTP_PORT": str(self._ports[name]),
            "TIDEWIRE_GATEWAY_PORT": str(own_port),
            **settings,
        }
        with self._log(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"services.{GATEWAY}"], stdout=output, stderr=output, env=environ
            )
        self.wait_ready(name)
        return own_port

    def kill(self, name: str) -> None:
        """kill -9; one of ours can be started again, one beside them is gone."""
        super().kill(name)
        if name not in SERVICES:
            del self._processes[name]

    def remove(self, name: str) -> None:
        """End a process in good order."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, self.said(name)[-20:]

    def is_alive(self, name: str) -> bool:
        return name in self._processes and self._processes[name].poll() is None

    def start_what_is_dead(self) -> None:
        """A test that broke off may have left something killed."""
        for name in SERVICES:
            if not self.is_alive(name):
                self.start(name)
        for name in SERVICES:
            self.wait_ready(name)

    def dsn_at(self, port: int, **parts: str) -> str:
        known = psycopg.conninfo.conninfo_to_dict(self.dsn)
        return psycopg.conninfo.make_conninfo(**{**known, "host": "127.0.0.1", "port": port, **parts})

    def said(self, name: str) -> list[dict[str, object]]:
        """The lines of a process's log, of all its lives."""
        lines = self._log(name).read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def pss_bytes(self, name: str) -> int:
        """What a process holds of the machine's memory, shared pages by their share."""
        text = Path(f"/proc/{self._processes[name].pid}/smaps_rollup").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("Pss:")]
        return int(line.split()[1]) * 1024
