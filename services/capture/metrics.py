"""Metrics of capture."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.changes = Counter("tidewire_capture_changes_total", "Row changes and truncates sent.", registry=registry)
        self.commits = Counter("tidewire_capture_commits_total", "Whole transactions sent.", registry=registry)
        self.bytes = Counter("tidewire_capture_sent_bytes_total", "Bytes sent to the log.", registry=registry)
        self.lag = Gauge(
            "tidewire_capture_lag_bytes", "WAL sent by PostgreSQL and not yet safe in Kafka.", registry=registry
        )
        self.slot_bytes = Gauge(
            "tidewire_capture_slot_bytes", "WAL that PostgreSQL keeps for the slot.", registry=registry
        )
        self.durable_lsn = Gauge(
            "tidewire_capture_durable_lsn", "Position up to which Kafka has it all.", registry=registry
        )
        self.epoch = Gauge(
            "tidewire_capture_epoch", "Fencing number of this writer; 0 while it writes nothing.", registry=registry
        )
        self.history = Gauge("tidewire_capture_history", "Number of the log's history.", registry=registry)
        self.pending_tables = Gauge(
            "tidewire_capture_pending_tables",
            "Tables whose replica identity or publication is not right yet.",
            registry=registry,
        )
