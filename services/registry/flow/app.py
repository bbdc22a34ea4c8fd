"""The Faust app: executes commands in batches, and writes each batch before the next one."""

import asyncio
import contextlib
import ssl
from typing import Any

import faust
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from faust.types import TP
from google.protobuf.message import DecodeError
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.commands_pb2 import Command
from proto.topics import COMMANDS
from services.chassis.folders import private_folder
from services.chassis.health import Progress
from services.chassis.kafka import Kafka
from services.chassis.seal import Seal
from services.registry.errors import Superseded
from services.registry.flow.command_executor import CommandExecutor
from services.registry.inbound.commands import listen
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Registry

BEAT_S = 1.0
# Kafka counts as unreachable if it does not answer within this time.
ANSWER_S = 10.0
# Commands up to this old are executed again after a crash.
COMMIT_S = 0.5


def build(
    kafka: Kafka,
    settings: Registry,
    *,
    seal: Seal,
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
        datadir=str(private_folder(None, service="registry")),
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        topic_replication_factor=kafka.replication_factor,
        broker_commit_interval=COMMIT_S,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
    )
    commands = TP(kafka.broker_name(COMMANDS.name), 0)
    executor = CommandExecutor(
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
        carry_out=executor.carry_out,
        decode=lambda value: _decoded(value, seal, metrics, log),
        tenure=lambda: executor.tenure,
        batch_commands=settings.batch_commands,
    )

    @app.on_partitions_revoked.connect()
    async def release(*_: Any, **__: Any) -> None:
        await executor.release()

    @app.timer(settings.lease_check_s)  # type: ignore[untyped-decorator]
    async def expire() -> None:
        if app.consumer.assignment():
            with contextlib.suppress(Superseded):
                await executor.expire(await _end(app, commands))

    @app.timer(BEAT_S)  # type: ignore[untyped-decorator]
    async def beat() -> None:
        progress.beat()
        if app.consumer.assignment():
            progress.ready()
        else:
            progress.not_ready("another registry owns the commands")

    return app


def _decoded(value: bytes, seal: Seal, metrics: Metrics, log: FilteringBoundLogger) -> Command | None:
    """The command; None, counted and logged, for a record that no gateway of ours has sealed."""
    if seal.holds(COMMANDS, value):
        with contextlib.suppress(DecodeError):
            return COMMANDS.decode(value)
    metrics.unsealed.inc()
    log.warning("command_dropped", reason="its seal is not ours", bytes=len(value))
    return None


async def _is_ours(app: faust.App, partition: TP, done: int | None) -> bool:
    """Whether the partition is ours, proven by a commit: the coordinator refuses one of a member that lost it."""
    consumer: Any = app.consumer
    if partition not in consumer.assignment():
        return False
    if done is None:
        done = consumer._committed_offset.get(partition) or 0
    taken: bool = await consumer._commit({partition: done})
    return taken


async def _end(app: faust.App, partition: TP) -> int | None:
    """The end offset of a partition; None if Kafka does not answer."""
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
