"""Builds the gateway and runs it: `python -m services.gateway`."""

import asyncio
import os
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
from services.chassis.status import StatusWriter
from services.gateway.core.failed_logins import FailedLogins
from services.gateway.flow.admin import Admin
from services.gateway.flow.cdc.parts import CdcParts
from services.gateway.flow.deliver import Delivery
from services.gateway.flow.notify.parts import NotifyParts
from services.gateway.flow.subscribe import Subscribe
from services.gateway.flow.topics.parts import TopicsParts
from services.gateway.inbound.certificate import certificate_of
from services.gateway.inbound.deliveries import Deliveries
from services.gateway.inbound.http_port.admin import AdminDoor
from services.gateway.inbound.http_port.app import Door, build_app
from services.gateway.inbound.http_port.authentication import Authentication, AuthenticationRules
from services.gateway.inbound.http_port.port import HttpPort
from services.gateway.inbound.http_port.tokens import TokenRules, Tokens
from services.gateway.inbound.pg_port.binary_door import BinaryDoorParts
from services.gateway.inbound.pg_port.listener import PgPort
from services.gateway.inbound.status import Statuses
from services.gateway.metrics import HttpMetrics, Metrics
from services.gateway.outbound.admin_tables import AdminTables
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.commands import Commands
from services.gateway.outbound.leases import Leases
from services.gateway.outbound.logins import Logins
from services.gateway.outbound.role_catalog import RoleCatalog
from services.gateway.outbound.role_check import RoleCheck
from services.gateway.outbound.roles import Roles
from services.gateway.outbound.signing_keys import signing_keys
from services.gateway.outbound.upstream import upstream_of
from services.gateway.outbound.validation import Validation
from services.gateway.settings import Gateway, Settings, with_known_names


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
    commands = Commands(
        settings.kafka, settings.seal, gateway_id=gateway_id, delivery_partition=partition, lease_ms=own.lease_ms
    )
    roles = Roles(settings.postgres)
    deliveries = Deliveries(settings.kafka, gateway_id=gateway_id, partition=partition)
    metrics = Metrics(registry, traffic)
    checks = Checks(Validation(settings.postgres, statement_timeout_ms=own.statement_timeout_ms), own.bounds)
    delivery = Delivery(own, commands=commands, captured=checks.captured, metrics=metrics, log=log)
    subscribe = Subscribe(
        delivery=delivery,
        commands=commands,
        checks=checks,
        role_check=RoleCheck(roles, superusers_subscribe=settings.postgres.superusers_subscribe),
        metrics=metrics,
        login_limit=own.login_limit,
    )
    notify = NotifyParts(settings, roles, gateway_id=gateway_id, log=log)
    role_catalog = RoleCatalog(settings.postgres, own.http.groups, remember_s=own.http.remember_role_s)
    topics = TopicsParts(settings, role_catalog, log)
    port = PgPort(
        own,
        upstream_of(settings.postgres.dsn),
        certificate_of(own),
        binary_door=BinaryDoorParts(
            delivery=delivery,
            subscribing=subscribe,
            rule=settings.subscriptions.selective_updates.rule,
            limits=own.subscribe_limits,
            on_refused=metrics.refused.inc,
        ),
        notify=notify.hub,
        topics=topics.pg_port,
        traffic=traffic,
        log=log,
    )
    logins = Logins(settings.postgres)
    cdc = CdcParts(settings, registry, log)
    admin = Admin(
        cdc=cdc.door,
        log=cdc.change_log,
        delivery=delivery,
        statuses=Statuses(settings.kafka, log=log),
        tables=AdminTables(settings.postgres),
        deliveries_behind=lambda: deliveries.behind,
    )
    doors = (*cdc.doors, *topics.doors, *notify.doors, AdminDoor(admin))
    http = build_http_port(own, logins, role_catalog, registry, progress.part("HTTP port"), log, doors)
    status = StatusWriter(settings.kafka, "gateway", registry, progress).start()
    try:
        await run(
            port=port.serve(),
            http=http.serve(),
            cdc=cdc.run(progress.part("CDC door")),
            admin=admin.run(),
            topics=topics.run(),
            notify=notify.run(progress.part("NOTIFY door")),
            deliveries=delivery.follow(deliveries, progress),
            leases=delivery.keep(),
            partition=leases.keep(),
        )
    finally:
        status.close()
        admin.close()
        await cdc.close()
        await topics.close()
        notify.close()
        logins.close()
        role_catalog.close()
        roles.close()
        commands.close()
        await leases.close()


def build_http_port(
    own: Gateway,
    logins: Logins,
    roles: RoleCatalog,
    registry: CollectorRegistry,
    progress: health.PartProgress,
    log: FilteringBoundLogger,
    doors: tuple[Door, ...] = (),
) -> HttpPort:
    """The HTTP port with its doors, not listening yet."""
    settings, metrics = own.http, HttpMetrics(registry)
    rules = TokenRules(
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        leeway_s=settings.jwt_leeway_s,
        most_bytes=settings.jwt_bytes,
    )
    authentication = Authentication(
        AuthenticationRules(
            claims=settings.claim_names, superusers=settings.superusers, remember_login_s=settings.remember_login_s
        ),
        logins=logins,
        roles=roles,
        tokens=Tokens(rules, secret=settings.jwt_secret, keys=signing_keys(settings)),
        failed=FailedLogins(settings.login_limits),
        metrics=metrics,
        log=log,
    )
    app = build_app(settings, authentication, doors=doors, metrics=metrics, log=log)
    # A certificate of its own: the PG port's context must not learn of HTTP.
    return HttpPort(
        settings, app, share_port=own.share_port, certificate=certificate_of(own), progress=progress, log=log
    )


if __name__ == "__main__":
    entry(
        main,
        service="gateway",
        description="The PostgreSQL port with live queries: a proxy to PostgreSQL that also speaks F0 to F7.",
        settings_type=Settings,
        environ=with_known_names(os.environ),
    )
