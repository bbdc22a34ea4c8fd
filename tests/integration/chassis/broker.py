"""One broker of our own for a test that stops, kills and restarts it, or gives it certificates."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from services.chassis.backoff import Backoff
from services.devstack.kafka import SETTINGS, Kafka
from services.devstack.ports import free_port

JARS = Path(__file__).parents[3] / ".tidewire" / "jars" / "kafka"


class Broker:
    """The devstack's Kafka as a process in the test's hand."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        controller_port: int | None = None,
    ) -> None:
        port = port or free_port()
        self.part = Kafka(
            java=shutil.which("java") or "java",
            jars=JARS,
            data=folder / "kafka",
            port=port,
            controller_port=controller_port or free_port(frozenset({port})),
            settings={**SETTINGS, **(settings or {})},
        )
        self._output = folder / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Broker":
        self.part.prepare()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self.part.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        for _ in Backoff(first_s=0.1, cap_s=0.5).attempts(give_up_after_s=90):
            if self.part.ready():
                return self
            if self._process.poll() is not None:
                break
        raise AssertionError(f"the broker did not start:\n{self._output.read_text()[-4000:]}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()
