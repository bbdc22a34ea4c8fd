"""The settings of recompute."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres


class Recompute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [recompute] section."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    # Ticks are many and small: a quick start is worth more here than the best machine code.
    java_options: str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    # How many records before its end the log is read from at the start: the commits in them tell whether a snapshot
    # lags behind the log.
    lookback_records: int = 2000
    # A first result whose barrier was not seen in the log after this time waits for a barrier of our own.
    barrier_wait_s: float = 1.0
    session_timeout_ms: int = 10_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    recompute: Recompute = Recompute()
    http: Http = Http()
