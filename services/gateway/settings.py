"""The settings of the gateway."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.settings import refuse_absent_files


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
    # The partition of `deliveries` that this gateway reads; no two gateways may have the same.
    delivery_partition: int = 0
    lease_ms: int = 30_000
    # How long a first result may take.
    subscribe_timeout_s: float = 30.0
    statement_timeout_ms: int = 5_000
    # V55.
    max_rows: int = 10_000
    subscribes_per_s: int = 10
    # What one client may leave unread before it is disconnected; live results are held back long before.
    unread_bytes: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        refuse_absent_files("gateway", tls_certificate=self.tls_certificate, tls_key=self.tls_key)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("a certificate needs its key: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE and _TLS_KEY")
        if self.tls_required and self.tls_certificate is None:
            raise ValueError("TLS cannot be required without a certificate: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    gateway: Gateway = Gateway()
    http: Http = Http()
