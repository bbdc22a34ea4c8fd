"""The live side of the PG port: subscribes are checked and passed on, deliveries are sent to their connections."""

import asyncio
import time
from collections.abc import Iterable
from typing import Protocol
from uuid import UUID, uuid4

from structlog.typing import FilteringBoundLogger

from proto.pgwire.live import NO_SUBSCRIPTION, FromClient, Pause, Refused, Resume, Subscribe, Unsubscribe, encode
from services.chassis.health import Progress
from services.gateway.core.identity import Identity
from services.gateway.core.rate import Rate
from services.gateway.core.switchboard import Ask, Effect, End, Send, Switchboard
from services.gateway.errors import SubscribeRefused
from services.gateway.inbound.deliveries import Deliveries
from services.gateway.metrics import Metrics
from services.gateway.outbound.commands import Commands
from services.gateway.outbound.validation import Validation
from services.gateway.settings import Gateway


class Outlet(Protocol):
    def send(self, data: bytes) -> None: ...


class Client(Protocol):
    async def settled(self, names: tuple[str, ...] = ()) -> Identity: ...


BEAT_S = 1.0


class Live:
    """Shared by all connections of the process."""

    def __init__(
        self,
        settings: Gateway,
        *,
        commands: Commands,
        validation: Validation,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._commands, self._validation = settings, commands, validation
        self._metrics, self._log = metrics, log
        self._board = Switchboard(settings.max_rows)
        self._outlets: dict[str, Outlet] = {}
        self._rates: dict[str, Rate] = {}
        self._deadlines: dict[UUID, float] = {}

    def drained(self, connection_id: str) -> None:
        pass

    def open(self, connection_id: str, outlet: Outlet, *, wants_lsn: bool) -> None:
        """A client is there; `outlet` takes its live messages."""
        self._outlets[connection_id] = outlet
        self._rates[connection_id] = Rate(self._settings.subscribes_per_s)
        self._metrics.connections.set(len(self._outlets))

    def close(self, connection_id: str) -> None:
        """A client is gone, and its subscriptions with it."""
        del self._outlets[connection_id], self._rates[connection_id]
        for subscription in self._board.remove_all(connection_id):
            self._commands.unsubscribe(subscription)
        self._metrics.connections.set(len(self._outlets))
        self._metrics.subscriptions.set(len(self._board))

    async def receive(self, message: FromClient, asking: Client) -> None:
        """A live message of a client."""
        client = await asking.settled()
        match message:
            case Subscribe():
                await self._subscribe(message, client)
            case Unsubscribe(subscription=subscription):
                if self._board.remove(subscription, client.connection_id):
                    self._commands.unsubscribe(subscription)
            case Pause(subscription=subscription):
                if self._board.pause(subscription, client.connection_id):
                    self._commands.pause(subscription)
            case Resume(subscription=subscription):
                if self._board.resume(subscription, client.connection_id):
                    self._commands.resume(subscription)
        self._metrics.subscriptions.set(len(self._board))

    async def follow(self, deliveries: Deliveries, progress: Progress) -> None:
        """Send what comes, until cancelled."""
        async for batch in deliveries.batches():
            for delivery in batch:
                if delivery.HasField("delta"):
                    self._perform(self._board.deliver(delivery.delta))
                elif delivery.subscription.HasField("refused"):
                    self._perform(self._board.refuse(delivery.subscription))
            progress.beat()
            trouble = deliveries.trouble or self._commands.trouble
            progress.ready() if trouble is None else progress.not_ready(f"Kafka does not answer: {trouble}")

    async def keep(self) -> None:
        """Renew the leases, and give up what has waited too long for a first result."""
        renew_every_s = self._settings.lease_ms / 3000
        renewed_s = time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            self._commands.poll()
            for subscription, deadline_s in list(self._deadlines.items()):
                if now_s > deadline_s:
                    del self._deadlines[subscription]
                    waited = f"Execution error: no result within {self._settings.subscribe_timeout_s:.0f} s"
                    self._perform(self._board.give_up(subscription, waited))
            if now_s - renewed_s >= renew_every_s and len(self._board):
                renewed_s = now_s
                self._commands.renew()

    async def _subscribe(self, message: Subscribe, client: Identity) -> None:
        subscription, asked_us = uuid4(), time.time_ns() // 1000
        try:
            self._rates[client.connection_id].take(time.monotonic())
            checked = await asyncio.to_thread(self._validation.check, message, client)
        except SubscribeRefused as refusal:
            self._metrics.refused.inc()
            known = subscription if refusal.numbered else NO_SUBSCRIPTION
            self._send(client.connection_id, encode(Refused(known, refusal.message)))
            return
        if client.connection_id not in self._outlets:
            return  # it left while we asked
        self._board.expect(subscription, client.connection_id, checked.tables)
        self._deadlines[subscription] = time.monotonic() + self._settings.subscribe_timeout_s
        self._commands.subscribe(subscription, message, client, checked, asked_us=asked_us)

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(connection=connection, data=data):
                    self._send(connection, data)
                case Ask(query_id=query_id):
                    self._metrics.resyncs.inc()
                    self._commands.request_snapshot(query_id)
                case End(subscription=subscription):
                    self._commands.unsubscribe(subscription)
        self._metrics.subscriptions.set(len(self._board))

    def _send(self, connection: str, data: bytes) -> None:
        outlet = self._outlets.get(connection)
        if outlet is not None:
            outlet.send(data)
