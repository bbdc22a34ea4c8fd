"""The routes of durable topics: in a thread of recompute, or alone (`python -m services.recompute.tools.routes`)."""

import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import Stop, end_at_once, entry
from services.recompute.flow.topics.engine import RoutesEngine
from services.recompute.inbound.topic_states import TopicStatesGroup
from services.recompute.metrics import RouteMetrics
from services.recompute.outbound.postgres.topic_filters import TopicFilters
from services.recompute.outbound.postgres.topic_sources import TopicSources
from services.recompute.settings import Settings

KAFKA_WAIT_S = 60.0


def start_routes(
    settings: Settings,
    registry: CollectorRegistry,
    part: health.PartProgress,
    log: FilteringBoundLogger,
    stop: Stop,
    die: Callable[[str], None],
) -> None:
    """Beside the queries: the process ends if the routes cannot go on."""

    def run() -> None:
        try:
            _run(settings, registry, part, log, stop)
        except Exception as error:  # its thread has nobody above it
            log.exception("routes_ended", reason=str(error))
            die(f"the routes of durable topics have ended ({type(error).__name__}: {error})")

    threading.Thread(target=run, name="routes", daemon=True).start()


def _run(
    settings: Settings,
    registry: CollectorRegistry,
    part: health.PartProgress,
    log: FilteringBoundLogger,
    stop: Stop,
    beat: Callable[[], None] = lambda: None,
) -> None:
    ensure_topics(settings.kafka, FLOW, timeout_s=KAFKA_WAIT_S)
    own = settings.recompute
    engine = RoutesEngine(
        settings.kafka,
        TopicStatesGroup(settings.kafka, session_timeout_ms=own.session_timeout_ms, worker_id=own.worker_id),
        TopicSources(settings.postgres),
        TopicFilters(settings.postgres),
        metrics=RouteMetrics(registry),
        log=log,
        recheck_s=own.recheck_s,
        stopped=lambda: stop.requested,
    )
    while not stop.requested:
        engine.turn()
        part.ready() if engine.trouble is None else part.not_ready(engine.trouble)
        beat()
    engine.close()


def main(settings: Settings) -> None:
    log: FilteringBoundLogger = logs.configure("recompute", "info")
    stop = Stop().on_signals()
    progress = health.Progress()
    registry = new_registry("recompute")
    health.serve(settings.http, registry, progress)
    progress.ready()
    progress.watch(lambda reason: end_at_once("recompute", reason))
    _run(settings, registry, progress.part("routes"), log, stop, progress.beat)


if __name__ == "__main__":
    entry(
        main,
        service="recompute.tools.routes",
        description="Routes committed changes into durable topics, without keeping queries.",
        settings_type=Settings,
    )
