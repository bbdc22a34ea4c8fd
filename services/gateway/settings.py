"""The settings of the gateway."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.redis import Redis
from services.chassis.seal import Seal
from services.chassis.settings import refuse_absent_files
from services.gateway.core.bounds import Bounds, SubscribeLimits
from services.gateway.core.delivery.ring import RingLimits
from services.gateway.core.delivery.subscriptions import DeliveryLimits
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.core.failed_logins import LoginLimits
from services.gateway.core.http_identity import ClaimNames
from services.gateway.core.notify.sockets import SocketLimits
from services.gateway.core.same_site import SiteRules

LEAST_SECRET_BYTES = 32
KNOWN_NAMES = {
    "SKEINDB_CDC_RETENTION_EVENTS": "TIDEWIRE_CDC_RETENTION_EVENTS",
    "KALAMDB_VISIBILITY_TIMEOUT_SECS": "TIDEWIRE_TOPICS_VISIBILITY_TIMEOUT_SECS",
    "KALAMDB_TOPIC_VISIBILITY_TIMEOUT_SECS": "TIDEWIRE_TOPICS_VISIBILITY_TIMEOUT_SECS",
}


class HttpPort(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [gateway.http] section: where the HTTP doors listen, whom they let in, and what a request may cost."""

    # Without a secret or keys for tokens it listens on loopback only, whatever is said here.
    host: str = "127.0.0.1"
    # 0 takes a free one.
    port: int = 0
    # Names of this server in the Host header, beside its addresses and localhost.
    hosts: tuple[str, ...] = ()
    # Origins whose pages may call from a browser (https://app.example.com), or *; none by default.
    cors_origins: tuple[str, ...] = ()
    # Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
    trusted_proxies: tuple[str, ...] = ()
    # Tokens: HS256 by a secret of at least 32 bytes; RS256 and ES256 by a JWKS document, a file or a URL.
    jwt_secret: str | None = None
    jwks_file: str | None = None
    jwks_url: str | None = None
    jwks_refresh_s: float = 300.0
    # If set, a token must have it; a token with an audience needs one that is named here.
    jwt_issuer: str | None = None
    jwt_audience: tuple[str, ...] = ()
    jwt_leeway_s: float = 5.0
    jwt_bytes: int = 8 * 1024
    # The claim with the service role (service, dba, system, user), and the one with the database role.
    jwt_service_role_claim: str = "role"
    jwt_database_role_claim: str = "database_role"
    # The database role of a token that names none; not set: it has none.
    jwt_default_database_role: str | None = None
    # The database roles whose members are service, dba and system.
    service_group: str = "tidewire_service"
    dba_group: str = "tidewire_dba"
    system_group: str = "tidewire_system"
    # Whether a superuser of PostgreSQL may be a caller at all.
    superusers: bool = False
    # How long a password that PostgreSQL accepted, and what it said about a role, are believed.
    remember_login_s: float = 30.0
    remember_role_s: float = 5.0
    # Failed log-ins of an address that cost nothing; the delay after the next, which then doubles; its limit.
    free_failures: int = 3
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    # What one request may be and take.
    body_bytes: int = 1024 * 1024
    header_bytes: int = 16 * 1024
    receive_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    # How long a client may leave an answer unread.
    unread_timeout_s: float = 30.0
    keep_alive_s: int = 15
    connections: int = 1000
    connections_per_address: int = 200
    # How long requests under way may go on when the gateway is asked to stop.
    drain_s: int = 5

    def __post_init__(self) -> None:
        refuse_absent_files("gateway.http", jwks_file=self.jwks_file)
        if self.jwt_secret and len(self.jwt_secret.encode()) < LEAST_SECRET_BYTES:
            raise ValueError(f"jwt_secret has fewer than {LEAST_SECRET_BYTES} bytes: set a longer one")
        if self.jwks_file is not None and self.jwks_url is not None:
            raise ValueError("set either jwks_file or jwks_url, not both")
        if self.jwks_url is not None and not _is_safe_url(self.jwks_url):
            raise ValueError("jwks_url must be https, or http on this machine: who changes the keys can make any token")
        for origin in self.cors_origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise ValueError(f"{origin!r} is no origin: write https://app.example.com, without a path")

    def __repr__(self) -> str:
        return f"HttpPort(host={self.host!r}, port={self.port})"

    @property
    def has_secret(self) -> bool:
        """Whether tokens can be verified: only then does the port leave loopback (decision 19)."""
        return bool(self.jwt_secret or self.jwks_file or self.jwks_url)

    @property
    def groups(self) -> dict[str, str]:
        """The service role of the members of each group."""
        return {self.system_group: "system", self.dba_group: "dba", self.service_group: "service"}

    @property
    def claim_names(self) -> ClaimNames:
        return ClaimNames(
            service_role=self.jwt_service_role_claim,
            database_role=self.jwt_database_role_claim,
            default_database_role=self.jwt_default_database_role,
        )

    @property
    def login_limits(self) -> LoginLimits:
        return LoginLimits(
            free_failures=self.free_failures, first_delay_s=self.first_delay_s, longest_delay_s=self.longest_delay_s
        )

    @property
    def site_rules(self) -> SiteRules:
        return SiteRules(
            hosts=frozenset(host.lower() for host in self.hosts),
            origins=frozenset(origin.lower() for origin in self.cors_origins),
        )


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
    # Let in whom PostgreSQL asks for no password, also from other machines and over PostgreSQL's socket: to PostgreSQL
    # all come from here, and where it asks the system who that is (peer) all are the gateway's own user.
    allow_trust: bool = False
    # How long a subscribe waits for a moment at which it can be proven on the client's connection who he is.
    proof_wait_s: float = 3.0
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
    # Unsubscribes, pauses and resumes of one connection together.
    messages_per_s: int = 100
    # Subscriptions of one login on this gateway, over all its connections.
    login_limit: int = 5_000
    # How large a subscribe may be; core/bounds.py says what of.
    bounds: Bounds = Bounds()
    # What one client may leave unread before it is disconnected; live results are held back long before.
    unread_bytes: int = 8 * 1024 * 1024
    # What is kept of a query for those who are paused or do not read, and of all queries together; whoever falls
    # further behind gets the whole result.
    ring_steps: int = 1024
    ring_bytes: int = 4 * 1024 * 1024
    rings_bytes: int = 64 * 1024 * 1024
    http: HttpPort = HttpPort()

    def __post_init__(self) -> None:
        refuse_absent_files("gateway", tls_certificate=self.tls_certificate, tls_key=self.tls_key)
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("a certificate needs its key: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE and _TLS_KEY")
        if self.tls_required and self.tls_certificate is None:
            raise ValueError("TLS cannot be required without a certificate: set TIDEWIRE_GATEWAY_TLS_CERTIFICATE")

    @property
    def subscribe_limits(self) -> SubscribeLimits:
        return SubscribeLimits(
            bounds=self.bounds,
            subscribes_per_s=self.subscribes_per_s,
            subscribes_under_way=self.subscribes_under_way,
            messages_per_s=self.messages_per_s,
        )

    @property
    def delivery_limits(self) -> DeliveryLimits:
        rings = RingLimits(steps=self.ring_steps, bytes=self.ring_bytes, total_bytes=self.rings_bytes)
        return DeliveryLimits(max_rows=self.max_rows, rings=rings)


class Cdc(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [cdc] section: the CDC door."""

    # How many events a subscription may be behind before it must take its table anew (S27).
    retention_events: int = 4096
    # The newest events that are kept in memory, so that live streams do not touch Kafka.
    tail_events: int = 16_384
    tail_bytes: int = 64 * 1024 * 1024
    # Subscriptions, over all gateways.
    subscriptions: int = 100_000
    # Of one owner, over all gateways: subscriptions, and prepared queries.
    subscriptions_per_owner: int = 5_000
    queries_per_owner: int = 500
    # How large the filters and args of one subscription may be, as JSON.
    subscription_bytes: int = 16 * 1024
    # How often a silent stream says that it is there.
    keep_alive_s: float = 15.0
    # How long a client may leave its stream unread and still be told everything, however far behind it is then.
    slow_s: float = 2.0
    # How long a prepared query may run, and how many rows it may have.
    statement_timeout_ms: int = 5_000
    max_rows: int = 10_000

    def __post_init__(self) -> None:
        if self.retention_events < 1 or self.tail_events < 1:
            raise ValueError("retention_events and tail_events must be at least 1")


class Topics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [topics] section (K19): the topics door."""

    # How long a consume is held that does not say, and the longest that it may say, in seconds.
    default_consume_timeout: float = 30.0
    max_consume_timeout: float = 300.0
    # Whether callers without a service role may consume, where they may read every table behind the topic.
    allow_user_role_consume: bool = False
    # How long a consumer may take for what it was given before others of its group get it.
    visibility_timeout_secs: float = 60.0
    # Of /v1/api/auth/login: how long its tokens are good, in seconds.
    access_token_secs: int = 3600
    refresh_token_secs: int = 7 * 24 * 3600

    def __post_init__(self) -> None:
        if not 0 <= self.default_consume_timeout <= self.max_consume_timeout:
            raise ValueError("default_consume_timeout must be from 0 to max_consume_timeout")
        if self.visibility_timeout_secs <= 0:
            raise ValueError("visibility_timeout_secs must be greater than 0")


class Notify(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [notify] section: the NOTIFY door."""

    # Members of this database role get every message of the channel that they LISTEN to; others those of queries that
    # run as a role that they may be.
    reader_role: str = "tidewire_notify_reader"
    # WebSockets that this gateway has at most.
    sockets: int = 20_000
    # What may wait for one WebSocket that does not read: messages, and bytes.
    socket_messages: int = 256
    socket_bytes: int = 1024 * 1024
    # How long a request for a whole result waits for it.
    result_wait_s: float = 10.0

    @property
    def socket_limits(self) -> SocketLimits:
        return SocketLimits(self.socket_messages, self.socket_bytes)


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
    def rule(self) -> PartialRowRule:
        return PartialRowRule(
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
    seal: Seal
    gateway: Gateway = Gateway()
    subscriptions: Subscriptions = Subscriptions()
    cdc: Cdc = Cdc()
    topics: Topics = Topics()
    notify: Notify = Notify()
    redis: Redis | None = None
    http: Http = Http()


def with_known_names(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the names of the original documents as ours (decision 22); ours go before."""
    known = {own: environ[theirs] for theirs, own in KNOWN_NAMES.items() if theirs in environ}
    return {**known, **environ}


def _is_safe_url(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
