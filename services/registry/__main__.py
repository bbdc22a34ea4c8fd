"""Builds the registry and runs it: `python -m services.registry`."""

import asyncio
import logging

import faust

from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import entry, run
from services.chassis.status import StatusWriter
from services.registry.errors import Crashed
from services.registry.flow.app import build
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Settings

STALE_AFTER_S = 10.0
DEAD_AFTER_S = 60.0


def main(settings: Settings) -> None:
    log = logs.configure("registry", "info")
    for chatty in ("faust", "mode", "aiokafka"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    progress = health.Progress(STALE_AFTER_S, dead_after_s=DEAD_AFTER_S)
    registry = new_registry("registry")
    health.serve(settings.http, registry, progress)
    ensure_topics(settings.kafka, FLOW)
    status = StatusWriter(settings.kafka, "registry", registry, progress).start()

    subscriptions = Subscriptions(settings.kafka, timeout_s=settings.registry.proof_s)
    queries = Queries(settings.kafka, settings.seal, timeout_s=settings.registry.proof_s)

    async def serve() -> None:
        app = build(
            settings.kafka,
            settings.registry,
            seal=settings.seal,
            subscriptions=subscriptions,
            queries=queries,
            metrics=Metrics(registry),
            progress=progress,
            log=log,
        )
        await run(commands=_live(app))

    asyncio.run(serve())
    subscriptions.close()
    queries.close()
    status.close()
    log.info("stopped")


async def _live(app: faust.App) -> None:
    """Start the app, and end with it."""
    await app.start()
    try:
        await app.wait_until_stopped()
        raise Crashed(str(app.crash_reason))
    finally:
        await app.stop()


if __name__ == "__main__":
    entry(
        main,
        service="registry",
        description="Keeps what is subscribed: reads `commands`, writes `subscriptions` and `queries`.",
        settings_type=Settings,
    )
