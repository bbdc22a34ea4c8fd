"""The Faust app: commands in, batch after batch, each written before the next."""

import asyncio
import contextlib
import ssl
import tempfile
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from faust.types import TP
from structlog.typing import FilteringBoundLogger

from proto.topics import COMMANDS
from services.chassis.health import Progress
from services.chassis.kafka import Kafka
from services.registry.desk import Desk
from services.registry.errors import Superseded
from services.registry.inbound.commands import listen
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Registry

BEAT_S = 1.0
# Within this Kafka must tell where `commands` ends, or it counts as away.
ANSWER_S = 10.0
# What a crash makes the next registry carry out again is at most as old as this.
COMMIT_S = 0.5


def build(
    kafka: Kafka,
    settings: Registry,
    *,
    subscriptions: Subscriptions,
    queries: Queries,
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
        # Faust makes a folder even for tables in memory.
        datadir=str(Path(tempfile.gettempdir()) / "tidewire-registry"),
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        topic_replication_factor=kafka.replication_factor,
        broker_commit_interval=COMMIT_S,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
    )
    commands = TP(kafka.broker_name(COMMANDS.name), 0)
    desk = Desk(
        settings,
        subscriptions=subscriptions,
        queries=queries,
        prove=lambda done: _is_ours(app, commands, done),
        metrics=metrics,
        log=log,
    )
    listen(
        app,
        _topic(app, kafka, COMMANDS.name),
        carry_out=desk.carry_out,
        tenure=lambda: desk.tenure,
        batch_commands=settings.batch_commands,
    )

    @app.on_partitions_revoked.connect()
    async def release(*_: Any, **__: Any) -> None:
        await desk.release()

    @app.timer(settings.lease_check_s)  # type: ignore[untyped-decorator]
    async def expire() -> None:
        if app.consumer.assignment():
            with contextlib.suppress(Superseded):
                await desk.expire(await _end(app, commands))

    @app.timer(BEAT_S)  # type: ignore[untyped-decorator]
    async def beat() -> None:
        progress.beat()
        if app.consumer.assignment():
            progress.ready()
        else:
            progress.not_ready("another registry owns the commands")

    return app


async def _is_ours(app: faust.App, partition: TP, done: int | None) -> bool:
    """Commit what is done: the group's coordinator takes it only from a member that has lost nothing."""
    consumer: Any = app.consumer
    if partition not in consumer.assignment():
        return False
    if done is None:
        done = consumer._committed_offset.get(partition) or 0
    taken: bool = await consumer._commit({partition: done})
    return taken


async def _end(app: faust.App, partition: TP) -> int | None:
    """Where a partition ends; None if Kafka does not tell."""
    try:
        async with asyncio.timeout(ANSWER_S):
            ends = await app.consumer.highwaters(partition)
    except (TimeoutError, KafkaError):
        return None
    end: int | None = ends.get(partition)
    return end


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
