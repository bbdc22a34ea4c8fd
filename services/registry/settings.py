"""The settings of the registry."""

import math

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.seal import Seal


class Registry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [registry] section."""

    # V55: how many subscriptions one connection, and all of them, may have, and how many a second one may add.
    owner_limit: int = 100
    global_limit: int = 10_000
    subscribes_per_s: int = 10
    # The part of `global_limit` that the connections of one login may have together, whatever roles it sets.
    role_share: float = 0.5
    # A statement with its filter, and all that one query holds with its parameters and settings: brokers take records
    # of 1 MB, and requests for whole results stand in the same one.
    statement_bytes: int = 400_000
    record_bytes: int = 800_000
    # How many commands are carried out and written together.
    batch_commands: int = 1_000
    # How often leases are looked through.
    lease_check_s: float = 5.0
    session_timeout_s: float = 10.0

    @property
    def proof_s(self) -> float:
        """How long a proof that the commands are ours is relied on, and how long a record may take to be written."""
        return self.session_timeout_s / 3

    @property
    def login_limit(self) -> int:
        return max(1, math.floor(self.global_limit * self.role_share))

    def __post_init__(self) -> None:
        for key in ("owner_limit", "global_limit", "subscribes_per_s", "batch_commands", "statement_bytes"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be at least 1: mend TIDEWIRE_REGISTRY_{key.upper()}")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    seal: Seal
    registry: Registry = Registry()
    http: Http = Http()
