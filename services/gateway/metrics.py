"""What the gateway counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Gauge("tidewire_gateway_connections", "Clients of the PG port.", registry=registry)
        self.subscriptions = Gauge("vibesql_subscriptions_active", "Subscriptions that live.", registry=registry)
        self.updates = Counter(
            "vibesql_subscription_updates_total", "SubscriptionData sent.", ("type",), registry=registry
        )
        self.refused = Counter("tidewire_gateway_refused_total", "Subscribes refused.", registry=registry)
        self.resyncs = Counter(
            "tidewire_gateway_resyncs_total", "Whole results asked for because of a gap.", registry=registry
        )
