"""The settings of the gateway."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres


class Gateway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [gateway] section: where clients of PostgreSQL connect, and what a subscription may cost."""

    host: str = "127.0.0.1"
    port: int = 5433
    # The partition of `deliveries` that this gateway reads; no two gateways may have the same.
    delivery_partition: int = 0
    lease_ms: int = 30_000
    # How long a first result may take.
    subscribe_timeout_s: float = 30.0
    statement_timeout_ms: int = 5_000
    # V55.
    max_rows: int = 10_000
    subscribes_per_s: int = 10
    # What one client may leave unread of its live results before it is disconnected.
    unread_bytes: int = 8 * 1024 * 1024


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    gateway: Gateway = Gateway()
    http: Http = Http()
