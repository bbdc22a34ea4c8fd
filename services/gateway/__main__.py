"""Builds the gateway and runs it: `python -m services.gateway`."""

import asyncio
from uuid import uuid4

import uvloop
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from proto.pgwire.conversation import Traffic
from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import entry, run
from services.gateway.inbound.deliveries import Deliveries
from services.gateway.inbound.pgwire import PgPort
from services.gateway.inbound.server import server_of
from services.gateway.inbound.tls import certificate_of
from services.gateway.live import Live
from services.gateway.metrics import Metrics
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.commands import Commands
from services.gateway.outbound.leases import Leases
from services.gateway.outbound.validation import Validation
from services.gateway.settings import Settings


def main(settings: Settings) -> None:
    log = logs.configure("gateway", "info")
    progress = health.Progress()
    registry = new_registry("gateway")
    health.serve(settings.http, registry, progress)
    ensure_topics(settings.kafka, FLOW)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, registry, progress, log))
    log.info("stopped")


async def _serve(
    settings: Settings, registry: CollectorRegistry, progress: health.Progress, log: FilteringBoundLogger
) -> None:
    own, gateway_id, traffic = settings.gateway, uuid4().hex, Traffic()
    leases = Leases(settings.redis, gateway_id=gateway_id, topic_prefix=settings.kafka.topic_prefix, log=log)
    partition = await leases.take() if own.delivery_partition is None else own.delivery_partition
    commands = Commands(settings.kafka, gateway_id=gateway_id, delivery_partition=partition, lease_ms=own.lease_ms)
    deliveries = Deliveries(settings.kafka, gateway_id=gateway_id, partition=partition)
    live = Live(
        own,
        settings.subscriptions.selective_updates.rule,
        commands=commands,
        checks=Checks(Validation(settings.postgres, statement_timeout_ms=own.statement_timeout_ms)),
        metrics=Metrics(registry, traffic),
        log=log,
    )
    port = PgPort(
        own,
        server_of(settings.postgres.dsn),
        certificate_of(own),
        live=live,
        traffic=traffic,
        log=log,
    )
    try:
        await run(
            port=port.serve(), deliveries=live.follow(deliveries, progress), leases=live.keep(), partition=leases.keep()
        )
    finally:
        commands.close()
        await leases.close()


if __name__ == "__main__":
    entry(
        main,
        service="gateway",
        description="The PostgreSQL port with live queries: a proxy to PostgreSQL that also speaks F0 to F7.",
        settings_type=Settings,
    )
