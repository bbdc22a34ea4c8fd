"""One of each service and as many more as a test wants, all to be killed at will."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg

from services.devstack.ports import free_port
from tests.fixtures.full_stack import FullStack


class ScaledStack(FullStack):
    """A full stack with more processes beside the first ones; a second gateway is `gateway-2`, and so on."""

    def __init__(self, dsn: str, kafka: str, prefix: str, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(dsn, kafka, prefix, directory, settings)
        self.kafka, self.prefix = kafka, prefix
        self._own: dict[str, dict[str, str]] = {}
        self._gateway_ports: dict[str, int] = {}

    def add(self, name: str, **settings: str) -> None:
        """Start one more and wait for it."""
        self._ports[name] = free_port()
        self._own[name] = settings
        self.start(name)
        self.wait_ready(name)

    def add_gateway(self, name: str, port: int | None = None, **settings: str) -> int:
        """Start one more gateway and wait for it; returns its port of PostgreSQL's protocol."""
        own_port = free_port() if port is None else port
        self._gateway_ports[name] = own_port
        self.add(name, TIDEWIRE_GATEWAY_PORT=str(own_port), **settings)
        return own_port

    def remove(self, name: str) -> None:
        """End one of those that were added, in good order if it lives."""
        process = self._processes.pop(name)
        del self._own[name]
        self._gateway_ports.pop(name, None)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, self.said(name)[-20:]

    def start(self, name: str) -> None:
        service = name.partition("-")[0]
        environ = {**self._environ, "TIDEWIRE_HTTP_PORT": str(self._ports[name]), **self._own.get(name, {})}
        with self._log(name).open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"services.{service}"], stdout=output, stderr=output, env=environ
            )

    def freeze(self, name: str) -> None:
        """Let it stand still, as a machine that swaps or a paused container does."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    @property
    def gateway_dsns(self) -> list[str]:
        """Where gateways are, dead ones too."""
        return [self.gateway_dsn, *map(self.dsn_at, self._gateway_ports.values())]

    @property
    def names(self) -> list[str]:
        return list(self._processes)

    def start_what_is_dead(self) -> None:
        """A test that broke off may have left something killed."""
        for name in [name for name in self.names if self._processes[name].poll() is not None]:
            self.start(name)
        for name in self.names:
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
