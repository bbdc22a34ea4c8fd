"""The settings of the registry."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka


class Registry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [registry] section."""

    # V55: how many subscriptions one connection, and all of them, may have.
    owner_limit: int = 100
    global_limit: int = 10_000
    # How often leases are looked through.
    lease_check_s: float = 5.0
    session_timeout_s: float = 10.0


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    registry: Registry = Registry()
    http: Http = Http()
