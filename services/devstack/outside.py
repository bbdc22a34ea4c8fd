"""Servers that the user brings: the stack is started around them, and never starts, stops or changes them."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec
import psycopg
import redis
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from services.chassis import kafka as brokers
from services.chassis import redis as indexes
from services.chassis import settings as sections
from services.chassis.postgres import Postgres
from services.devstack.home import Home, replace
from services.devstack.settings import Settings

# Topics of ours beside those of others; a TIDEWIRE_KAFKA_TOPIC_PREFIX of the user's goes before it.
TOPIC_PREFIX = "tidewire."


class Choice(Struct, frozen=True, kw_only=True):
    """Which servers the user brings; None stands for the stack's own."""

    postgres: str | None = None
    kafka: str | None = None
    redis: str | None = None


def chosen(settings: Settings) -> Choice:
    return Choice(postgres=settings.postgres_dsn, kafka=settings.kafka_bootstrap, redis=settings.redis_url)


def remember(home: Home, settings: Settings) -> None:
    """For commands that come later without naming the servers again."""
    replace(_memory(home), msgspec.json.encode(chosen(settings)))


def remembered(home: Home) -> Choice:
    """What the stack that runs, or ran last, was started around."""
    path = _memory(home)
    return msgspec.json.decode(path.read_bytes(), type=Choice) if path.exists() else Choice()


def as_running(settings: Settings, home: Home) -> Settings:
    """The settings with the servers of the running stack."""
    found = remembered(home)
    return msgspec.structs.replace(
        settings, postgres_dsn=found.postgres, kafka_bootstrap=found.kafka, redis_url=found.redis
    )


def through_gateway(dsn: str, port: int) -> str:
    """The same login and database by way of a gateway on this machine, which has no TLS there."""
    parts = conninfo_to_dict(dsn)
    user, password = quote(str(parts.get("user") or ""), safe=""), parts.get("password")
    login = user + (f":{quote(str(password), safe='')}" if password else "")
    return (
        f"postgresql://{login}{'@' if login else ''}127.0.0.1:{port}/{quote(str(parts.get('dbname') or ''), safe='')}"
    )


class OutsidePostgres(Struct, frozen=True):
    given: str
    name: str = "postgres"

    def dsn(self) -> str:
        return self.given

    @property
    def address(self) -> str:
        return Postgres(dsn=self.given).address

    def not_ready(self) -> str | None:
        """Why it cannot be used, or None."""
        try:
            psycopg.connect(make_conninfo(self.given, connect_timeout=2)).close()
        except psycopg.Error as error:
            return str(error).strip().splitlines()[0]
        return None


class OutsideKafka(Struct, frozen=True):
    given: str
    environ: Mapping[str, str]
    name: str = "kafka"

    @property
    def address(self) -> str:
        return self.given

    def not_ready(self) -> str | None:
        """Why it cannot be used, or None; how to log in is the services' own [kafka] section."""
        try:
            section = sections.load(_KafkaOnly, {**self.environ, "TIDEWIRE_KAFKA_BOOTSTRAP": self.given}).kafka
            AdminClient({**section.client_config()}).list_topics(timeout=3)
        except (KafkaException, sections.BadSetting) as error:
            return f"does not answer: {error}"
        return None


class OutsideRedis(Struct, frozen=True):
    url: str
    environ: Mapping[str, str]
    name: str = "redis"

    @property
    def address(self) -> str:
        return indexes.Redis(url=self.url).address

    def not_ready(self) -> str | None:
        """Why it cannot be used, or None."""
        try:
            section = sections.load(_RedisOnly, {**self.environ, "TIDEWIRE_REDIS_URL": self.url}).redis
            with redis.Redis.from_url(section.url, **section.options()) as client:
                client.ping()
        except (redis.RedisError, sections.BadSetting) as error:
            return f"does not answer: {error}"
        return None


class _KafkaOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: brokers.Kafka


class _RedisOnly(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    redis: indexes.Redis


def _memory(home: Home) -> Path:
    return home.root / "outside.json"
