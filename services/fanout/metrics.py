"""Metrics of fanout."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.deltas = Counter("tidewire_fanout_deltas_total", "Records of `deltas` read.", registry=registry)
        self.void = Counter("tidewire_fanout_void_total", "Records of fenced-off workers dropped.", registry=registry)
        self.deliveries = Counter("tidewire_fanout_deliveries_total", "Records written.", registry=registry)
        self.behind = Gauge("tidewire_fanout_behind_records", "Records of `deltas` not read yet.", registry=registry)
