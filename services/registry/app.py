"""The Faust app: commands in, one after the other, each written before the next."""

import ssl
from typing import Any

import faust
from structlog.typing import FilteringBoundLogger

from proto.topics import COMMANDS, QUERIES, SUBSCRIPTIONS
from services.chassis.health import Progress
from services.chassis.kafka import Kafka
from services.registry.desk import Desk
from services.registry.inbound.commands import listen
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Registry

BEAT_S = 1.0


def build(
    kafka: Kafka,
    settings: Registry,
    *,
    metrics: Metrics,
    progress: Progress,
    log: FilteringBoundLogger,
) -> faust.App:
    """The app; it does nothing before it is started."""
    app = faust.App(
        kafka.broker_name("registry"),
        broker=[f"kafka://{address.strip()}" for address in kafka.bootstrap.split(",")],
        broker_credentials=_credentials(kafka),
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 4,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        topic_replication_factor=kafka.replication_factor,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        stream_wait_empty=False,
    )
    desk = Desk(
        kafka,
        settings,
        subscriptions=Subscriptions(_topic(app, kafka, SUBSCRIPTIONS.name)),
        queries=Queries(_topic(app, kafka, QUERIES.name)),
        metrics=metrics,
        log=log,
    )
    listen(app, _topic(app, kafka, COMMANDS.name), desk.carry_out)

    @app.on_partitions_revoked.connect()
    async def forget(*_: Any, **__: Any) -> None:
        desk.forget()

    @app.timer(settings.lease_check_s)  # type: ignore[untyped-decorator]
    async def expire() -> None:
        if app.consumer.assignment():
            await desk.expire()

    @app.timer(BEAT_S)  # type: ignore[untyped-decorator]
    async def beat() -> None:
        progress.beat()
        if app.consumer.assignment():
            progress.ready()
        else:
            progress.not_ready("another registry owns the commands")

    return app


def _topic(app: faust.App, kafka: Kafka, name: str) -> Any:
    return app.topic(
        kafka.broker_name(name), key_serializer="raw", value_serializer="raw", key_type=bytes, value_type=bytes
    )


def _credentials(kafka: Kafka) -> Any:
    if kafka.security_protocol == "PLAINTEXT":
        return None
    context = None
    if kafka.security_protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=kafka.ssl_ca_location)
        if kafka.ssl_certificate_location is not None:
            context.load_cert_chain(kafka.ssl_certificate_location, kafka.ssl_key_location, kafka.ssl_key_password)
    if kafka.security_protocol == "SSL":
        return faust.SSLCredentials(context)
    return faust.SASLCredentials(
        username=kafka.sasl_username,
        password=kafka.sasl_password,
        mechanism=kafka.sasl_mechanism,
        ssl_context=context,
    )
