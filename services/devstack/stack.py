"""The parts of one stack, built from settings, ports and credentials."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from services.devstack import credentials, ports, postgres, redis, service
from services.devstack.credentials import Credentials
from services.devstack.errors import MissingPart
from services.devstack.home import Home
from services.devstack.kafka import Kafka
from services.devstack.part import Part
from services.devstack.postgres import Postgres
from services.devstack.redis import Redis
from services.devstack.service import Service
from services.devstack.settings import PREFIX, Settings


class Stack(Struct, frozen=True, kw_only=True):
    """Everything that runs, and how to reach it."""

    home: Home
    credentials: Credentials
    postgres: Postgres
    kafka: Kafka
    redis: Redis
    gateway_pg_port: int
    services: tuple[Service, ...]

    @property
    def gateway_pg(self) -> str:
        """PostgreSQL as the gateway shows it."""
        return msgspec.structs.replace(self.postgres, port=self.gateway_pg_port).dsn()

    @property
    def gateway_http(self) -> str:
        """So far the health page of the gateway: its HTTP doors are to come."""
        return next(f"http://{each.address}" for each in self.services if each.name == "gateway")

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order of their start; they stop in reverse."""
        return (self.postgres, self.kafka, self.redis, *self.services)


def settle_ports(settings: Settings, home: Home) -> dict[str, int]:
    """Decide the ports of a stack that starts now, and remember them."""
    fixed = {
        "postgres": settings.postgres_port,
        "kafka": settings.kafka_port,
        "redis": settings.redis_port,
        "gateway_pg": settings.gateway_pg_port,
    }
    servers = ["postgres", "kafka", "kafka_controller", "redis", "gateway_pg"]
    names = [*servers, *(declared.name for declared in service.DECLARED)]
    memory = ports.Ports(_memory(home))
    return {name: memory.take(name, fixed.get(name), f"{PREFIX}{name.upper()}_PORT") for name in names}


def remembered_ports(home: Home) -> dict[str, int]:
    """The ports of the stack that runs, or ran last."""
    return ports.remembered(_memory(home))


def assemble(settings: Settings, home: Home, port: Mapping[str, int]) -> Stack:
    """Build every part; nothing starts, and what is missing on this machine is named."""
    secret = credentials.keep(home.root / "credentials.json")
    programs = Path(settings.postgres_bin) if settings.postgres_bin else postgres.wheel_bin()
    database = Postgres(
        bin=programs,
        data=home.data(f"postgres-{server_major(programs)}"),
        port=port["postgres"],
        password=secret.postgres_password,
    )
    broker = Kafka(
        java=java(),
        jars=Path(settings.jars) / "kafka",
        data=home.data("kafka"),
        port=port["kafka"],
        controller_port=port["kafka_controller"],
    )
    index = Redis(
        program=redis.wheel_program(), data=home.data("redis"), port=port["redis"], password=secret.redis_password
    )
    reach = {
        service.KAFKA: broker.address,
        service.POSTGRES: database.dsn(),
        service.REDIS: index.url,
        service.GATEWAY_PORT: str(port["gateway_pg"]),
        service.RECOMPUTE_FOLDER: str(home.data("recompute")),
        # A restarted worker gets its queries back at once.
        service.RECOMPUTE_WORKER: "devstack",
    }
    own = (
        Service(declaration=each, port=port[each.name], settings=reach) for each in service.DECLARED if each.exists()
    )
    return Stack(
        home=home,
        credentials=secret,
        postgres=database,
        kafka=broker,
        redis=index,
        gateway_pg_port=port["gateway_pg"],
        services=tuple(own),
    )


def server_major(programs: Path) -> int:
    """The major version of a PostgreSQL, which its data folder is bound to."""
    program = programs / "postgres"
    if not program.exists():
        raise MissingPart(f"no PostgreSQL at {program}: set {PREFIX}POSTGRES_BIN to a bin folder, or unset it")
    words = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()
    return int(words[2].split(".")[0])


def java() -> str:
    """The Java that runs Kafka."""
    found = shutil.which("java")
    if found is None:
        raise MissingPart("java is missing: install JDK 17, for instance `apt install openjdk-17-jdk-headless`")
    return found


def _memory(home: Home) -> Path:
    return home.root / "ports.json"
