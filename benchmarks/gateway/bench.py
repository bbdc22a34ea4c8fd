"""A gateway process between a PostgreSQL and a Kafka of its own."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from services.devstack.home import last_lines
from services.devstack.ports import free_port
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import PostgresServer, start_postgres

PATIENCE_S = 60.0


class Bench(Struct, frozen=True):
    server: PostgresServer
    kafka: str
    folder: Path

    @contextmanager
    def gateway(self, settings: Mapping[str, str] | None = None) -> Iterator[int]:
        """A gateway; gives its port."""
        port, http = free_port(), free_port()
        environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")},
            "TIDEWIRE_POSTGRES_DSN": self.server.dsn,
            "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE": "true",
            "TIDEWIRE_KAFKA_BOOTSTRAP": self.kafka,
            "TIDEWIRE_SEAL_KEY": "a key for benchmarks, which is no secret",
            "TIDEWIRE_GATEWAY_PORT": str(port),
            "TIDEWIRE_HTTP_PORT": str(http),
            **(settings or {}),
        }
        log = self.folder / "gateway.log"
        with log.open("ab") as output:
            command = [sys.executable, "-m", "services.gateway"]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environ)
        try:
            _wait_ready(process, http, log)
            yield port
        finally:
            process.terminate()
            process.wait()


@contextmanager
def started() -> Iterator[Bench]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        with start_postgres(folder / "postgres") as server, start_kafka(folder / "kafka") as broker:
            yield Bench(server, broker.bootstrap, folder)


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except (urllib.error.HTTPError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the gateway is not ready:\n{last_lines(log, 30)}") from None
            time.sleep(0.1)
