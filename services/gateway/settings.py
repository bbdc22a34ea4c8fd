"""The settings of the gateway."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.redis import Redis
from services.chassis.settings import refuse_absent_files
from services.gateway.core.ring import RingLimits
from services.gateway.core.selective import Rule
from services.gateway.core.switchboard import Limits


class Gateway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [gateway] section: where clients of PostgreSQL connect, and what a subscription may cost."""

    host: str = "127.0.0.1"
    port: int = 5433
    # Several gateways of one machine on the same port; the kernel shares the clients out.
    share_port: bool = False
    # PEM files; with them clients may ask for TLS. Renewed files are taken up with the next connection.
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_required: bool = False
    # Let in whom PostgreSQL asks for no password, also from other machines: to PostgreSQL all come from here.
    allow_trust: bool = False
    # The partition of `deliveries` that this gateway reads; by default it leases one.
    delivery_partition: int | None = None
    lease_ms: int = 30_000
    # How long a first result may take.
    subscribe_timeout_s: float = 30.0
    statement_timeout_ms: int = 5_000
    # V55.
    max_rows: int = 10_000
    subscribes_per_s: int = 10
    # Subscribes of one connection that are being checked; more are told to come again.
    subscribes_under_way: int = 20
    # What one client may leave unread before it is disconnected; live results are held back long before.
    unread_bytes: int = 8 * 1024 * 1024
    # What is kept of a query for those who are paused or do not read, and of all queries together; whoever falls
    # further behind gets the whole result.
    ring_steps: int = 1024
    ring_bytes: int = 4 * 1024 * 1024
    rings_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        refuse_absent_files("gateway", tls_certificate=self.tls_certificate, tls_key=self.tls_key)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("a certificate needs its key: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE and _TLS_KEY")
        if self.tls_required and self.tls_certificate is None:
            raise ValueError("TLS cannot be required without a certificate: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE")

    @property
    def limits(self) -> Limits:
        rings = RingLimits(steps=self.ring_steps, bytes=self.ring_bytes, total_bytes=self.rings_bytes)
        return Limits(max_rows=self.max_rows, rings=rings)


class SelectiveUpdates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [subscriptions.selective_updates] section (V51): when a changed row is sent in part."""

    enabled: bool = True
    min_changed_columns: int = 1
    max_changed_columns_ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.max_changed_columns_ratio <= 1:
            raise ValueError("max_changed_columns_ratio must be from 0 to 1")
        if self.min_changed_columns < 0:
            raise ValueError("min_changed_columns must not be negative")

    @property
    def rule(self) -> Rule:
        return Rule(
            enabled=self.enabled,
            min_changed_columns=self.min_changed_columns,
            max_changed_columns_ratio=self.max_changed_columns_ratio,
        )


class Subscriptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [subscriptions] section."""

    selective_updates: SelectiveUpdates = SelectiveUpdates()


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    gateway: Gateway = Gateway()
    subscriptions: Subscriptions = Subscriptions()
    redis: Redis | None = None
    http: Http = Http()
