"""The settings of capture."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres


class Capture(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [capture] section."""

    slot: str = "tidewire"
    # How long to wait for a slot that another process holds; a stalled holder is dropped by PostgreSQL itself after
    # wal_sender_timeout_ms, so this must be longer.
    slot_wait_s: float = 30.0
    wal_sender_timeout_ms: int = 10_000
    # How often the log gets a sign of life, and an idle database may drop its WAL.
    heartbeat_s: float = 5.0
    # How often tables that could not be made ready at once are tried again.
    sweep_s: float = 5.0
    lock_timeout_ms: int = 100
    # A segment is cut at this size; a record over record_bytes is split, since Kafka's default limit is 1 MB.
    segment_bytes: int = 512 * 1024
    record_bytes: int = 900_000
    row_limit_bytes: int = 64 * 1024 * 1024


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    capture: Capture = Capture()
    http: Http = Http()
