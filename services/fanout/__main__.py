"""Builds fanout and runs it: `python -m services.fanout`."""

from structlog.typing import FilteringBoundLogger

from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.backoff import Backoff
from services.chassis.kafka import DeliveryFailed, KafkaUnreachable, MembershipLost, ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import Stop, entry
from services.chassis.status import StatusWriter
from services.fanout.flow.router import Router
from services.fanout.inbound.subscriptions import Subscriptions
from services.fanout.metrics import Metrics
from services.fanout.outbound.deliveries import Deliveries
from services.fanout.settings import Settings

# Kafka may need a second for a record when it is busy; after this it does not answer.
PATIENCE_S = 2.0
AGAIN = Backoff(first_s=0.2, cap_s=2.0)


def main(settings: Settings) -> None:
    log = logs.configure("fanout", "info")
    stop = Stop().on_signals()
    progress = health.Progress()
    registry = new_registry("fanout")
    metrics = Metrics(registry)
    health.serve(settings.http, registry, progress)
    ensure_topics(settings.kafka, FLOW)
    status = StatusWriter(settings.kafka, "fanout", registry, progress).start()
    for _ in AGAIN.attempts(sleep=stop.wait):
        _route(settings, stop, progress, metrics, log)
    status.close()
    log.info("stopped")


def _route(
    settings: Settings, stop: Stop, progress: health.Progress, metrics: Metrics, log: FilteringBoundLogger
) -> None:
    """Until the stop, or until Kafka was away for so long that only a new beginning helps: we keep no state."""

    def show() -> None:
        progress.beat()
        _show(progress, router, deliveries)

    def beat() -> None:
        progress.beat()
        if deliveries.waiting_s > PATIENCE_S:
            progress.not_ready(f"Kafka has not taken our records for {deliveries.waiting_s:.0f} s")

    deliveries = Deliveries(settings.kafka, while_waiting=beat)
    router = Router(
        settings.kafka,
        session_timeout_ms=settings.fanout.session_timeout_ms,
        subscriptions=Subscriptions(settings.kafka, while_waiting=progress.beat),
        deliveries=deliveries,
        metrics=metrics,
    )
    try:
        while not stop.requested:
            router.turn()
            show()
    except (KafkaUnreachable, MembershipLost, DeliveryFailed) as error:
        log.warning("begins_anew", reason=str(error))
        progress.not_ready(str(error))
    finally:
        router.close()


def _show(progress: health.Progress, router: Router, deliveries: Deliveries) -> None:
    """Ready means: partitions are ours and Kafka takes our records."""
    trouble = deliveries.trouble or router.trouble
    if trouble is not None:
        progress.not_ready(f"Kafka does not answer: {trouble}")
    elif deliveries.waiting_s > PATIENCE_S:
        progress.not_ready(f"Kafka has not taken our records for {deliveries.waiting_s:.0f} s")
    elif router.owns_any:
        progress.ready()
    else:
        progress.not_ready("no partitions are ours: other fanouts have them, or Kafka does not answer")


if __name__ == "__main__":
    entry(
        main,
        service="fanout",
        description="Hands each delta on to the gateways whose clients want it: `deltas` to `deliveries`.",
        settings_type=Settings,
    )
