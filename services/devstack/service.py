"""The project's own services as parts of the stack: one declaration each."""

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from services.devstack.identity import OURSELVES
from services.devstack.settings import PROJECT

KAFKA = "TIDEWIRE_KAFKA_BOOTSTRAP"
# Only where the stack is started around a Kafka that others use too.
KAFKA_PREFIX = "TIDEWIRE_KAFKA_TOPIC_PREFIX"
POSTGRES = "TIDEWIRE_POSTGRES_DSN"
# The stack's own login is a superuser, and subscribes.
SUPERUSERS = "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE"
REDIS = "TIDEWIRE_REDIS_URL"
HTTP_PORT = "TIDEWIRE_HTTP_PORT"
SEAL_KEY = "TIDEWIRE_SEAL_KEY"
GATEWAY_PORT = "TIDEWIRE_GATEWAY_PORT"
GATEWAY_HTTP_PORT = "TIDEWIRE_GATEWAY_HTTP_PORT"
GATEWAY_JWT_SECRET = "TIDEWIRE_GATEWAY_HTTP_JWT_SECRET"
GATEWAY_HTTP_SUPERUSERS = "TIDEWIRE_GATEWAY_HTTP_SUPERUSERS"
RECOMPUTE_FOLDER = "TIDEWIRE_RECOMPUTE_FOLDER"
RECOMPUTE_WORKER = "TIDEWIRE_RECOMPUTE_WORKER_ID"


class Declaration(Struct, frozen=True):
    """A service: its package, the parts it starts after, and the settings that the stack gives it."""

    name: str
    needs: tuple[str, ...]
    settings: tuple[str, ...]
    lag_metric: str | None = None

    @property
    def module(self) -> str:
        return f"services.{self.name}"

    def exists(self, project: Path = PROJECT) -> bool:
        """Whether the service is written yet."""
        return (project / self.module.replace(".", "/") / "__main__.py").exists()


# Adding a service to the stack is adding it here and to docker-compose.yml.
DECLARED = (
    Declaration("capture", ("postgres", "kafka"), (KAFKA, POSTGRES), lag_metric="tidewire_capture_lag_bytes"),
    Declaration("registry", ("kafka",), (KAFKA, SEAL_KEY)),
    # Not after Kafka: Spark takes longer to start than Kafka does.
    Declaration(
        "recompute", ("postgres",), (KAFKA, POSTGRES, SUPERUSERS, SEAL_KEY, RECOMPUTE_FOLDER, RECOMPUTE_WORKER)
    ),
    Declaration("fanout", ("kafka",), (KAFKA,)),
    Declaration(
        "gateway",
        ("postgres", "kafka", "redis"),
        (
            *(KAFKA, POSTGRES, SUPERUSERS, REDIS, SEAL_KEY),
            *(GATEWAY_PORT, GATEWAY_HTTP_PORT, GATEWAY_JWT_SECRET, GATEWAY_HTTP_SUPERUSERS),
        ),
    ),
    Declaration("retention", ("kafka", "redis"), (KAFKA, REDIS)),
)


class Service(Struct, frozen=True, kw_only=True):
    """A declared service with the port of its health page and the settings of this stack."""

    declaration: Declaration
    port: int
    settings: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def needs(self) -> tuple[str, ...]:
        return self.declaration.needs

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        chosen = {key: self.settings[key] for key in self.declaration.settings}
        if KAFKA_PREFIX in self.settings:
            chosen[KAFKA_PREFIX] = self.settings[KAFKA_PREFIX]
        return chosen | {HTTP_PORT: str(self.port), "PYTHONUNBUFFERED": "1"}

    def prepare(self) -> None:
        """Nothing: a service keeps its state in the servers."""

    def command(self) -> list[str]:
        return OURSELVES.launch([sys.executable, "-m", self.declaration.module])

    def not_ready(self) -> str | None:
        """None if /readyz says 200, else the reason that it gives."""
        try:
            self._opened("/readyz")
        except urllib.error.HTTPError as error:
            with error:
                return _reason(error.read())
        except OSError:
            return "does not answer"
        return None

    def lag(self) -> str:
        """What its lag metric says, or nothing where it has none or does not answer."""
        page = self._get("/metrics") if self.declaration.lag_metric else None
        for line in (page or "").splitlines():
            if line.split("{")[0].split(" ")[0] == self.declaration.lag_metric:
                return f"{float(line.rsplit(' ', 1)[1]):.0f} B"
        return ""

    def _get(self, path: str) -> str | None:
        """The page, or None for any answer but 200."""
        try:
            return self._opened(path)
        except OSError:
            return None

    def _opened(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=2) as answer:
            return str(answer.read().decode())


def _reason(body: bytes) -> str:
    """What the service's health page says beside its 503."""
    try:
        return msgspec.json.decode(body, type=_Verdict).reason
    except msgspec.DecodeError:
        return "answers, but not as a service of ours does"


class _Verdict(Struct, frozen=True):
    reason: str
