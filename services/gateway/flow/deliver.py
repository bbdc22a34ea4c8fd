"""Sends what `deliveries` brings to the clients' connections, and looks after subscriptions while they live."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from uuid import UUID

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.positions import Lsn
from proto.tidewire.v1.deliveries_pb2 import Delivery as DeliveryRecord
from services.chassis.health import Progress
from services.gateway.core.delivery.effects import (
    Acknowledge,
    Effect,
    EndSubscription,
    RequestSnapshot,
    SendBatch,
    SendRefusal,
)
from services.gateway.core.delivery.encoder import Encoder, Outlet
from services.gateway.core.delivery.subscription import Owner, Subscription
from services.gateway.core.delivery.subscriptions import Subscriptions
from services.gateway.core.encoders.binary import BinaryBatch, BinaryEncoder
from services.gateway.core.late_result import late_result
from services.gateway.core.principal import Principal
from services.gateway.errors import Refusal
from services.gateway.inbound.deliveries import Deliveries
from services.gateway.metrics import Metrics
from services.gateway.outbound.commands import Commands
from services.gateway.settings import Gateway

BEAT_S = 1.0
SNAPSHOT_OVERDUE_S = 30.0


class FirstResult(Struct, frozen=True):
    """A first result that has not come: until when it must, and the position that it waits for."""

    deadline_s: float
    barrier: Lsn | None


class Delivery:
    """The subscriptions of all connections of this process, whichever door they came by."""

    def __init__(
        self,
        settings: Gateway,
        *,
        commands: Commands,
        captured: Callable[[], Awaitable[Lsn | None]],
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        """`captured` asks how far the log of changes has been written."""
        self._settings, self._commands, self._captured = settings, commands, captured
        self._metrics, self._log = metrics, log
        self._subscriptions = Subscriptions(settings.delivery_limits)
        self._outlets: dict[str, Outlet] = {}
        self._first_results: dict[UUID, FirstResult] = {}

    def open(self, connection_id: str, outlet: Outlet) -> None:
        """A client is there; `outlet` takes its messages."""
        self._outlets[connection_id] = outlet
        self._subscriptions.open(connection_id, outlet)
        self._metrics.connections.set(len(self._outlets))

    def every(self) -> Iterable[tuple[Subscription, int]]:
        """The subscriptions, each with how many steps it is behind."""
        return self._subscriptions.every()

    def is_open(self, connection_id: str) -> bool:
        return connection_id in self._outlets

    def close(self, connection_id: str) -> None:
        """A client is gone, and its subscriptions with it."""
        del self._outlets[connection_id]
        for subscription_id in self._subscriptions.close(connection_id):
            self._first_results.pop(subscription_id, None)
            self._commands.unsubscribe(subscription_id)
        self._metrics.connections.set(len(self._outlets))
        self._metrics.subscriptions.set(len(self._subscriptions))

    def drained(self, connection_id: str) -> None:
        """A client that did not read has read what waited for it."""
        self._perform(self._subscriptions.drained(connection_id))

    def end_all(self, connection_id: str, refusal: Refusal, unless: Owner | None = None) -> None:
        """A client's session was reset or changed its role: what is not that owner's ends."""
        self._perform(self._subscriptions.end_all(connection_id, refusal, unless))

    def logins_of(self, connection_id: str) -> set[str]:
        """Whose subscriptions a connection has."""
        return self._subscriptions.logins_of(connection_id)

    def count_of(self, login: str) -> int:
        """How many subscriptions a login has here, over all its connections."""
        return self._subscriptions.count_of(login)

    def add(
        self,
        subscription_id: UUID,
        connection_id: str,
        encoder: Encoder,
        principal: Principal,
        *,
        tables: int,
        barrier: Lsn | None,
    ) -> None:
        """A subscription whose first result will come, or must be given up."""
        self._subscriptions.add(
            subscription_id,
            connection_id,
            encoder,
            tables=tables,
            owner=Owner(principal.login, principal.role),
            expires_s=principal.expires_s,
        )
        deadline_s = time.monotonic() + self._settings.subscribe_timeout_s
        self._first_results[subscription_id] = FirstResult(deadline_s, barrier)
        self._metrics.subscriptions.set(len(self._subscriptions))

    def unsubscribe(self, subscription_id: UUID, connection_id: str) -> None:
        if self._subscriptions.remove(subscription_id, connection_id):
            self._commands.unsubscribe(subscription_id)
            self._metrics.subscriptions.set(len(self._subscriptions))

    def pause(self, subscription_id: UUID, connection_id: str) -> None:
        if self._subscriptions.pause(subscription_id, connection_id):
            self._commands.pause(subscription_id)

    def resume(self, subscription_id: UUID, connection_id: str) -> None:
        if self._subscriptions.resume(subscription_id, connection_id):
            self._commands.resume(subscription_id)

    async def follow(self, deliveries: Deliveries, progress: Progress) -> None:
        """Send what comes, until cancelled."""
        async for batch in deliveries.batches():
            if batch.lost:
                self._log.warning("deliveries_lost", reason="the topic no longer has what was to be read next")
                self._perform(self._subscriptions.distrust_all())
            for record in batch.deliveries:
                self._take(record)
                # Clients must be able to read what one delivery brought before the next: they would look slow.
                await asyncio.sleep(0)
            progress.beat()
            trouble = deliveries.trouble or self._commands.trouble
            progress.ready() if trouble is None else progress.not_ready(f"Kafka does not answer: {trouble}")

    async def keep(self) -> None:
        """Renew leases; end subscriptions that waited too long for a result or whose credentials have expired."""
        renew_every_s = self._settings.lease_ms / 3000
        renewed_s = snapshots_s = time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            self._commands.poll()
            self._metrics.eligible.set(sum(map(_sends_partial_rows, self._subscriptions.encoders_of_keyed())))
            self._metrics.ring_bytes.set(self._subscriptions.ring_bytes)
            self._perform(self._subscriptions.end_expired(now_s))
            await self._give_up_overdue(now_s)
            if now_s - snapshots_s >= SNAPSHOT_OVERDUE_S:
                snapshots_s = now_s
                self._perform(self._subscriptions.request_overdue_snapshots())
            if now_s - renewed_s >= renew_every_s and len(self._subscriptions):
                renewed_s = now_s
                self._commands.renew()

    def _take(self, record: DeliveryRecord) -> None:
        if record.HasField("delta"):
            self._perform(self._subscriptions.deliver(record.delta))
        elif record.subscription.HasField("refused"):
            self._perform(self._subscriptions.refuse(record.subscription))

    async def _give_up_overdue(self, now_s: float) -> None:
        overdue = [one for one, awaited in self._first_results.items() if now_s > awaited.deadline_s]
        captured = await self._captured() if overdue else None
        waited_s = self._settings.subscribe_timeout_s
        for subscription_id in overdue:
            awaited = self._first_results.pop(subscription_id, None)
            if awaited is None:
                continue  # it has come while we asked
            refusal = late_result(
                waited_s, barrier=awaited.barrier, captured=captured, evaluated=self._subscriptions.evaluated
            )
            self._perform(self._subscriptions.give_up(subscription_id, refusal))
            if self._subscriptions.awaits_first_result(subscription_id):
                self._first_results[subscription_id] = FirstResult(now_s + waited_s, awaited.barrier)

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendBatch(batch=batch, to=to):
                    encoded = batch.encoded
                    for one in to:
                        one.connection.outlet.send(encoded.addressed(one.id_bytes))
                    if isinstance(encoded, BinaryBatch):
                        self._metrics.sent(encoded.statistics, len(to))
                case Acknowledge(subscription=one, key_positions=key_positions):
                    self._first_results.pop(one.id, None)
                    one.connection.outlet.send(one.encoder.acknowledgement(one.id_bytes, one.tables, key_positions))
                    self._metrics.acknowledged(one.tables, has_key=bool(key_positions))
                case SendRefusal(subscription=one, refusal=refusal):
                    one.connection.outlet.send(one.encoder.refusal(one.id_bytes, refusal))
                case RequestSnapshot(query_id=query_id):
                    self._metrics.resyncs.inc()
                    self._commands.request_snapshot(query_id)
                case EndSubscription(subscription_id=subscription_id):
                    self._commands.unsubscribe(subscription_id)
        self._metrics.subscriptions.set(len(self._subscriptions))


def _sends_partial_rows(encoder: Encoder) -> bool:
    return isinstance(encoder, BinaryEncoder) and encoder.rule.enabled
