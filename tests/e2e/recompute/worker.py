"""A recompute worker as a process of the test run: started, killed, stopped and woken, and what it said."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from services.devstack.home import last_lines
from services.devstack.ports import free_port
from tests.fixtures.readiness import is_ready


class WorkerProcess:
    """One `python -m services.recompute`, with its JVM; or another `program` that runs it."""

    def __init__(self, environ: dict[str, str], log: Path, program: str = "services.recompute") -> None:
        self.port, self.log = free_port(), log
        self.began_s = time.monotonic()
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program],
                stdout=output,
                stderr=output,
                env={**inherited, **environ, "TIDEWIRE_HTTP_PORT": str(self.port)},
                # Its JVM is in the same group, and is ended with it.
                start_new_session=True,
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_ready(self) -> bool:
        return is_ready(self.port)

    def wait_ready(self, within_s: float = 180.0) -> "WorkerProcess":
        deadline = time.monotonic() + within_s
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the worker is not ready:\n{self.output()}")
            time.sleep(0.1)
        return self

    def output(self, lines: int = 60) -> str:
        return last_lines(self.log, lines)

    def said(self, event: str) -> list[dict]:
        """The lines of its log about an event."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and f'"{event}"' in line:
                try:
                    said = json.loads(line)
                except ValueError:
                    continue  # cut by a kill
                if said.get("event") == event:
                    found.append(said)
        return found

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[1])
        raise KeyError(name)

    def kill(self) -> None:
        """SIGKILL for the worker; its JVM ends by itself, as it would on any machine."""
        self.process.kill()
        self.process.wait()

    def halt(self) -> None:
        """Stop it where it stands, as a stalled machine would."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Whatever it does, it and its JVM are gone afterwards."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
