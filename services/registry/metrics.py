"""Metrics of the registry."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.commands = Counter(
            "tidewire_registry_commands_total", "Commands carried out.", ("command",), registry=registry
        )
        self.batches = Counter(
            "tidewire_registry_batches_total", "Times that commands were written together.", registry=registry
        )
        self.refused = Counter("tidewire_registry_refused_total", "Subscriptions refused or ended.", registry=registry)
        self.unsealed = Counter(
            "tidewire_registry_unsealed_total", "Commands dropped because their seal was not ours.", registry=registry
        )
        self.repaired = Counter(
            "tidewire_registry_repaired_total", "Records that a registry before wrote late.", registry=registry
        )
        self.subscriptions = Gauge("tidewire_registry_subscriptions", "Subscriptions that live.", registry=registry)
        self.queries = Gauge("tidewire_registry_queries", "Different queries among them.", registry=registry)
