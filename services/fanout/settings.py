"""The settings of fanout."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka


class Fanout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [fanout] section."""

    session_timeout_ms: int = 6_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    fanout: Fanout = Fanout()
    http: Http = Http()
