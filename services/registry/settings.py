"""The settings of the registry."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka


class Registry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [registry] section."""

    # V55: how many subscriptions one connection, and all of them, may have, and how many a second one may add.
    owner_limit: int = 100
    global_limit: int = 10_000
    subscribes_per_s: int = 10
    # How many commands are carried out and written together.
    batch_commands: int = 1_000
    # How often leases are looked through.
    lease_check_s: float = 5.0
    session_timeout_s: float = 10.0

    @property
    def proof_s(self) -> float:
        """How long a proof that the commands are ours is relied on, and how long a record may take to be written."""
        return self.session_timeout_s / 3

    def __post_init__(self) -> None:
        for key in ("owner_limit", "global_limit", "subscribes_per_s", "batch_commands"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be at least 1: mend TIDEWIRE_REGISTRY_{key.upper()}")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    registry: Registry = Registry()
    http: Http = Http()
