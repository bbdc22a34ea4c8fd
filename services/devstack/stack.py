"""The parts of one stack, built from settings, ports and credentials."""

import shutil
import subprocess
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from services.devstack import credentials, outside, ports, postgres, redis, service
from services.devstack.credentials import Credentials
from services.devstack.errors import MissingPart
from services.devstack.home import Home
from services.devstack.kafka import Kafka
from services.devstack.outside import OutsideKafka, OutsidePostgres, OutsideRedis
from services.devstack.part import Part
from services.devstack.postgres import Postgres
from services.devstack.redis import Redis
from services.devstack.service import Service
from services.devstack.settings import PREFIX, Settings

Outside = OutsidePostgres | OutsideKafka | OutsideRedis


class Stack(Struct, frozen=True, kw_only=True):
    """Everything that runs, and how to reach it."""

    home: Home
    credentials: Credentials
    postgres: Postgres | OutsidePostgres
    kafka: Kafka | OutsideKafka
    redis: Redis | OutsideRedis
    topic_prefix: str
    gateway_pg_port: int
    gateway_http_port: int
    services: tuple[Service, ...]

    @property
    def gateway_pg(self) -> str:
        """PostgreSQL as the gateway shows it."""
        return outside.through_gateway(self.postgres.dsn(), self.gateway_pg_port)

    @property
    def gateway_http(self) -> str:
        """The gateway's HTTP doors; its health page has a port of its own."""
        return f"http://127.0.0.1:{self.gateway_http_port}"

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the stack starts, in the order of their start; they stop in reverse."""
        servers = (self.postgres, self.kafka, self.redis)
        own = tuple(each for each in servers if isinstance(each, Postgres | Kafka | Redis))
        return (*own, *self.services)

    @property
    def outside(self) -> tuple[Outside, ...]:
        """What the user brought."""
        servers = (self.postgres, self.kafka, self.redis)
        return tuple(each for each in servers if not isinstance(each, Postgres | Kafka | Redis))


def settle_ports(settings: Settings, home: Home) -> dict[str, int]:
    """Decide the ports of a stack that starts now, and remember them."""
    fixed = {
        "postgres": settings.postgres_port,
        "kafka": settings.kafka_port,
        "redis": settings.redis_port,
        "gateway_pg": settings.gateway_pg_port,
        "gateway_http": settings.gateway_http_port,
    }
    servers = ["postgres", "kafka", "kafka_controller", "redis", "gateway_pg", "gateway_http"]
    names = [*servers, *(declared.name for declared in service.DECLARED)]
    memory = ports.Ports(_memory(home))
    return {name: memory.take(name, fixed.get(name), f"{PREFIX}{name.upper()}_PORT") for name in names}


def remembered_ports(home: Home) -> dict[str, int]:
    """The ports of the stack that runs, or ran last."""
    return ports.remembered(_memory(home))


def assemble(settings: Settings, home: Home, port: Mapping[str, int], environ: Mapping[str, str]) -> Stack:
    """Build every part; nothing starts, and what is missing on this machine is named."""
    secret = credentials.keep(home.root / "credentials.json")
    database = _database(settings, home, port, secret)
    # The log of one database means nothing beside another.
    of_database = f"-{_digest(database.address)}" if isinstance(database, OutsidePostgres) else ""
    broker = _broker(settings, home.data(f"kafka{of_database}"), port, environ)
    index = _index(settings, home.data(f"redis{of_database}"), port, secret, environ)
    topic_prefix = environ.get(service.KAFKA_PREFIX, "")
    if isinstance(broker, OutsideKafka):
        topic_prefix = topic_prefix or outside.TOPIC_PREFIX
    reach = {
        service.KAFKA: broker.address,
        service.KAFKA_PREFIX: topic_prefix,
        service.POSTGRES: database.dsn(),
        service.SUPERUSERS: "true",
        service.REDIS: index.url,
        service.SEAL_KEY: secret.seal_key,
        service.GATEWAY_PORT: str(port["gateway_pg"]),
        service.GATEWAY_HTTP_PORT: str(port["gateway_http"]),
        service.GATEWAY_JWT_SECRET: secret.jwt_secret,
        service.GATEWAY_HTTP_SUPERUSERS: "true",
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
        topic_prefix=topic_prefix,
        gateway_pg_port=port["gateway_pg"],
        gateway_http_port=port["gateway_http"],
        services=tuple(own),
    )


def _database(
    settings: Settings, home: Home, port: Mapping[str, int], secret: Credentials
) -> Postgres | OutsidePostgres:
    if settings.postgres_dsn:
        return OutsidePostgres(settings.postgres_dsn)
    programs = Path(settings.postgres_bin) if settings.postgres_bin else postgres.wheel_bin()
    return Postgres(
        bin=programs,
        data=home.data(f"postgres-{server_major(programs)}"),
        port=port["postgres"],
        password=secret.postgres_password,
    )


def _broker(
    settings: Settings, data: Path, port: Mapping[str, int], environ: Mapping[str, str]
) -> Kafka | OutsideKafka:
    if settings.kafka_bootstrap:
        return OutsideKafka(settings.kafka_bootstrap, environ)
    return Kafka(
        java=java(),
        jars=Path(settings.jars) / "kafka",
        data=data,
        port=port["kafka"],
        controller_port=port["kafka_controller"],
    )


def _index(
    settings: Settings, data: Path, port: Mapping[str, int], secret: Credentials, environ: Mapping[str, str]
) -> Redis | OutsideRedis:
    if settings.redis_url:
        return OutsideRedis(settings.redis_url, environ)
    return Redis(program=redis.wheel_program(), data=data, port=port["redis"], password=secret.redis_password)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=4).hexdigest()


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
