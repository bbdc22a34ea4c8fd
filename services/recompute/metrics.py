"""What recompute counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.ticks = Counter("tidewire_recompute_ticks_total", "Ticks that ran a Spark job.", registry=registry)
        self.tick_seconds = Histogram(
            "tidewire_recompute_tick_seconds",
            "Time of a tick, from the changes to the deltas sent.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )
        self.deltas = Counter("tidewire_recompute_deltas_total", "Deltas and snapshots written.", registry=registry)
        self.queries = Gauge("tidewire_recompute_queries", "Queries whose results are kept.", registry=registry)
        self.rows = Gauge("tidewire_recompute_replica_rows", "Rows in the replicas.", registry=registry)
