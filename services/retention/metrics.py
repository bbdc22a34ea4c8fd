"""Metrics of retention."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.trimmed = Counter(
            "tidewire_retention_trimmed_messages_total", "Messages of durable topics trimmed.", registry=registry
        )
        self.changes_horizon = Gauge(
            "tidewire_retention_changes_horizon_seq", "The first seq that `changes` still has.", registry=registry
        )
        self.oldest_reader = Gauge(
            "tidewire_retention_oldest_reader_seq",
            "Where the slowest reader of `changes` stands that is still waited for.",
            registry=registry,
        )
        self.dead_readers = Gauge(
            "tidewire_retention_dead_readers", "Readers that were silent for too long.", registry=registry
        )
        self.leftovers = Counter(
            "tidewire_retention_leftovers_total", "Keys in Redis of topics that are gone.", registry=registry
        )
        self.failures = Counter("tidewire_retention_failures_total", "Runs that did not end.", registry=registry)
