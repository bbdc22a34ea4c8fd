"""Builds fanout and runs it: `python -m services.fanout`."""

from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import Stop, entry
from services.fanout.inbound.subscriptions import Subscriptions
from services.fanout.metrics import Metrics
from services.fanout.outbound.deliveries import Deliveries
from services.fanout.router import Router
from services.fanout.settings import Settings


def main(settings: Settings) -> None:
    log = logs.configure("fanout", "info")
    stop = Stop().on_signals()
    progress = health.Progress()
    registry = new_registry("fanout")
    health.serve(settings.http, registry, progress)
    ensure_topics(settings.kafka, FLOW)
    deliveries = Deliveries(settings.kafka, while_waiting=progress.beat)
    router = Router(
        settings.kafka,
        session_timeout_ms=settings.fanout.session_timeout_ms,
        subscriptions=Subscriptions(settings.kafka, while_waiting=progress.beat),
        deliveries=deliveries,
        metrics=Metrics(registry),
    )
    while not stop.requested:
        router.turn()
        progress.beat()
        _show(progress, router, deliveries)
    router.close()
    log.info("stopped")


def _show(progress: health.Progress, router: Router, deliveries: Deliveries) -> None:
    """Ready means: partitions are ours and Kafka takes our records."""
    if deliveries.trouble is not None:
        progress.not_ready(f"Kafka does not take records: {deliveries.trouble}")
    elif router.owns_any:
        progress.ready()
    else:
        progress.not_ready("another fanout owns all partitions")


if __name__ == "__main__":
    entry(
        main,
        service="fanout",
        description="Hands each delta on to the gateways whose clients want it: `deltas` to `deliveries`.",
        settings_type=Settings,
    )
