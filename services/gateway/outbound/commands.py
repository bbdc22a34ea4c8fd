"""The topic `commands`."""

import time
from uuid import UUID, uuid4

from proto.pgwire.live import Subscribe
from proto.tidewire.v1 import commands_pb2 as commands
from proto.topics import COMMANDS
from services.chassis.kafka import Kafka, Writer
from services.gateway.core.identity import Identity
from services.gateway.outbound.validation import Checked

CLIENT_ID = "gateway"
FLUSH_S = 2.0


class Commands:
    """What this gateway tells the registry; sent in order, and kept through an outage of Kafka."""

    def __init__(self, kafka: Kafka, *, gateway_id: str, delivery_partition: int, lease_ms: int) -> None:
        # The registry's Kafka client knows no lz4, and commands are small.
        self._writer = Writer(
            kafka, COMMANDS.name, client_id=CLIENT_ID, partition=0, extra={"compression.type": "none"}
        )
        self._gateway_id, self._delivery_partition, self._lease_ms = gateway_id, delivery_partition, lease_ms

    def subscribe(
        self, subscription: UUID, subscribe: Subscribe, client: Identity, checked: Checked, *, asked_us: int
    ) -> None:
        """`asked_us` is when the client asked: the registry counts its rate by it, as we did."""
        body = commands.Subscribe(
            subscription_id=subscription.bytes,
            sql=subscribe.query,
            parameters=[commands.Parameter(value=value) for value in subscribe.parameters],
            filter=subscribe.filter or "",
            owner=commands.Owner(role=client.role, connection_id=client.connection_id),
            text_settings=client.text_settings,
            search_path=client.search_path,
            barrier_id=checked.barrier_id,
            lease_ms=self._lease_ms,
            settings_read=checked.settings_read,
            names=checked.names,
        )
        self._send(commands.Command(subscribe=body, sent_us=asked_us), subscription.bytes)

    def unsubscribe(self, subscription: UUID) -> None:
        body = commands.Unsubscribe(subscription_id=subscription.bytes)
        self._send(commands.Command(unsubscribe=body), subscription.bytes)

    def pause(self, subscription: UUID) -> None:
        self._send(commands.Command(pause=commands.Pause(subscription_id=subscription.bytes)), subscription.bytes)

    def resume(self, subscription: UUID) -> None:
        self._send(commands.Command(resume=commands.Resume(subscription_id=subscription.bytes)), subscription.bytes)

    def renew(self) -> None:
        self._send(commands.Command(renew=commands.Renew(lease_ms=self._lease_ms)), None)

    def request_snapshot(self, query_id: bytes) -> None:
        body = commands.SnapshotRequest(query_id=query_id, request_id=uuid4().bytes)
        self._send(commands.Command(snapshot_request=body), query_id)

    def poll(self) -> None:
        self._writer.poll(0)

    def close(self) -> None:
        self._writer.flush(FLUSH_S)
        self._writer.close()

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    def _send(self, command: commands.Command, key: bytes | None) -> None:
        command.command_id = uuid4().bytes
        command.gateway_id, command.delivery_partition = self._gateway_id, self._delivery_partition
        command.sent_us = command.sent_us or time.time_ns() // 1000
        self._writer.send(command.SerializeToString(), key=key)
        self._writer.poll(0)
