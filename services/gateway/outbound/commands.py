"""The topic `commands`."""

import time
from uuid import UUID, uuid4

from proto.tidewire.v1 import commands_pb2 as commands
from proto.topics import COMMANDS
from services.chassis.kafka import Kafka, Writer
from services.chassis.seal import Seal
from services.gateway.core.principal import Principal
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import RefusalCode, SubscribeRefused
from services.gateway.outbound.validation import Checked

CLIENT_ID = "gateway"
FLUSH_S = 2.0
# Half of what brokers take by default: the registry's record about it holds the text more than once.
LARGEST_BYTES = 256 * 1024


class Commands:
    """What this gateway tells the registry; sent in order, and kept through an outage of Kafka."""

    def __init__(self, kafka: Kafka, seal: Seal, *, gateway_id: str, delivery_partition: int, lease_ms: int) -> None:
        # The registry's Kafka client knows no lz4, and commands are small.
        self._writer = Writer(
            kafka, COMMANDS.name, client_id=CLIENT_ID, partition=0, extra={"compression.type": "none"}
        )
        self._seal = seal
        self._gateway_id, self._delivery_partition, self._lease_ms = gateway_id, delivery_partition, lease_ms

    def subscribing(
        self, subscription: UUID, request: SubscribeRequest, principal: Principal, checked: Checked, *, asked_us: int
    ) -> commands.Command:
        """`asked_us` is when the client asked: the registry counts its rate by it, as we did."""
        body = commands.Subscribe(
            subscription_id=subscription.bytes,
            sql=request.query,
            parameters=[commands.Parameter(value=value) for value in request.parameters],
            filter=request.filter or "",
            owner=commands.Owner(role=principal.role, login=principal.login, connection_id=principal.connection_id),
            text_settings=principal.text_settings,
            search_path=principal.search_path,
            barrier_id=checked.barrier_id,
            lease_ms=self._lease_ms,
            settings_read=checked.settings_read,
            names=checked.names,
        )
        if body.ByteSize() > LARGEST_BYTES:
            raise SubscribeRefused(
                RefusalCode.LIMIT_EXCEEDED,
                f"Limit exceeded: the query with its parameters, names and settings has {body.ByteSize()} bytes, "
                f"over the limit of {LARGEST_BYTES}",
            )
        return commands.Command(subscribe=body, sent_us=asked_us)

    def unsubscribe(self, subscription: UUID) -> None:
        body = commands.Unsubscribe(subscription_id=subscription.bytes)
        self.send(commands.Command(unsubscribe=body), subscription.bytes)

    def pause(self, subscription: UUID) -> None:
        self.send(commands.Command(pause=commands.Pause(subscription_id=subscription.bytes)), subscription.bytes)

    def resume(self, subscription: UUID) -> None:
        self.send(commands.Command(resume=commands.Resume(subscription_id=subscription.bytes)), subscription.bytes)

    def renew(self) -> None:
        self.send(commands.Command(renew=commands.Renew(lease_ms=self._lease_ms)), None)

    def request_snapshot(self, query_id: bytes) -> None:
        body = commands.SnapshotRequest(query_id=query_id, request_id=uuid4().bytes)
        self.send(commands.Command(snapshot_request=body), query_id)

    def poll(self) -> None:
        self._writer.poll(0)

    def close(self) -> None:
        self._writer.flush(FLUSH_S)
        self._writer.close()

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    def send(self, command: commands.Command, key: bytes | None) -> None:
        command.command_id = uuid4().bytes
        command.gateway_id, command.delivery_partition = self._gateway_id, self._delivery_partition
        command.sent_us = command.sent_us or time.time_ns() // 1000
        self._writer.send(self._seal.sealed(COMMANDS, command), key=key)
        self._writer.poll(0)
