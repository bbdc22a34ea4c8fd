"""The settings of retention."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.redis import Redis


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [retention] section."""

    # How often everything is looked at.
    interval_s: float = 30.0
    # Of `changes` the last so many events are kept at least: as many as the CDC door promises
    # (TIDEWIRE_CDC_RETENTION_EVENTS), or more.
    changes_events: int = 4096
    # And what was written within this time: a restarted service reads it again, recompute from its checkpoints on.
    # Those are not looked at here, so it is as long as Kafka itself keeps the topic.
    changes_keep_s: float = 7 * 86_400.0
    # A reader of `changes` that has not been heard of for so long holds nothing back; it is told when it returns.
    reader_grace_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.changes_events < 1 or self.changes_keep_s < 0 or self.reader_grace_s <= 0:
            raise ValueError("interval_s and reader_grace_s must be above 0, changes_events at least 1")


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kafka: Kafka
    redis: Redis
    retention: Retention = Retention()
    http: Http = Http()
