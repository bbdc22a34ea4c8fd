"""The live side of the PG port: subscribes are checked and passed on, deliveries are sent to their connections."""

import asyncio
import time
from collections.abc import Iterable
from typing import Protocol
from uuid import UUID, uuid4

from structlog.typing import FilteringBoundLogger

from proto.pgwire.live import NO_SUBSCRIPTION, FromClient, Pause, Refused, Resume, Subscribe, Unsubscribe, encode
from proto.tidewire.v1.deliveries_pb2 import Delivery
from services.chassis.health import Progress
from services.gateway.core.effects import Ask, Begin, Effect, End, Fan, Send
from services.gateway.core.identity import Identity
from services.gateway.core.rate import Rate
from services.gateway.core.selective import Rule
from services.gateway.core.subscriber import Outlet
from services.gateway.core.switchboard import Switchboard
from services.gateway.errors import SubscribeRefused
from services.gateway.inbound.deliveries import Deliveries
from services.gateway.metrics import Metrics
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.commands import Commands
from services.gateway.settings import Gateway

BEAT_S = 1.0
ASK_AGAIN_S = 30.0


class Client(Protocol):
    """Who asks."""

    connection_id: str

    async def settled(self, names: tuple[str, ...] = ()) -> Identity:
        """Who he is, after settings that PostgreSQL does not report were read on his connection."""


class Connection:
    """What is known of a connection beside its subscriptions."""

    def __init__(self, outlet: Outlet, rate: Rate) -> None:
        self.outlet, self.rate = outlet, rate


class Live:
    """Shared by all connections of the process."""

    def __init__(
        self,
        settings: Gateway,
        rule: Rule,
        *,
        commands: Commands,
        checks: Checks,
        metrics: Metrics,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._rule, self._commands, self._checks = settings, rule, commands, checks
        self._metrics, self._log = metrics, log
        self._board = Switchboard(settings.limits)
        self._connections: dict[str, Connection] = {}
        self._deadlines: dict[UUID, float] = {}

    def open(self, connection_id: str, outlet: Outlet, *, wants_lsn: bool) -> None:
        """A client is there; `outlet` takes its live messages."""
        rate = Rate(self._settings.subscribes_per_s, self._settings.subscribes_under_way)
        self._connections[connection_id] = Connection(outlet, rate)
        self._board.open(connection_id, outlet, wants_lsn=wants_lsn)
        self._metrics.connections.set(len(self._connections))

    def close(self, connection_id: str) -> None:
        """A client is gone, and its subscriptions with it."""
        del self._connections[connection_id]
        for subscription in self._board.close(connection_id):
            self._deadlines.pop(subscription, None)
            self._commands.unsubscribe(subscription)
        self._metrics.connections.set(len(self._connections))
        self._metrics.subscriptions.set(len(self._board))

    def drained(self, connection_id: str) -> None:
        """A client that did not read has read what waited for it."""
        self._perform(self._board.drained(connection_id))

    async def receive(self, message: FromClient, client: Client) -> None:
        """A live message of a client."""
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
            if batch.lost:
                self._log.warning("deliveries_lost", reason="the topic no longer has what was to be read next")
                self._perform(self._board.doubt())
            for delivery in batch.deliveries:
                self._take(delivery)
                # Readers must be able to read what one delivery brought before the next: they would look slow.
                await asyncio.sleep(0)
            progress.beat()
            trouble = deliveries.trouble or self._commands.trouble
            progress.ready() if trouble is None else progress.not_ready(f"Kafka does not answer: {trouble}")

    async def keep(self) -> None:
        """Renew the leases, and look after what has waited too long."""
        renew_every_s = self._settings.lease_ms / 3000
        renewed_s = asked_s = time.monotonic()
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            self._commands.poll()
            self._metrics.eligible.set(self._board.eligible)
            self._metrics.ring_bytes.set(self._board.ring_bytes)
            self._give_up_overdue(now_s)
            if now_s - asked_s >= ASK_AGAIN_S:
                asked_s = now_s
                self._perform(self._board.ask_again())
            if now_s - renewed_s >= renew_every_s and len(self._board):
                renewed_s = now_s
                self._commands.renew()

    async def _subscribe(self, message: Subscribe, client: Client) -> None:
        subscription, asked_us = uuid4(), time.time_ns() // 1000
        connection = self._connections.get(client.connection_id)
        if connection is None:
            return  # it left before its message was read
        try:
            connection.rate.take(time.monotonic())
            try:
                identity = await client.settled()
                checked = await self._checks.check(message, identity)
                if checked.settings_unknown:
                    identity = await client.settled(checked.settings_unknown)
                    checked = checked.with_settings(identity)
            finally:
                connection.rate.done()
        except SubscribeRefused as refusal:
            self._metrics.refused.inc()
            known = subscription if refusal.numbered else NO_SUBSCRIPTION
            if self._has(client, connection):
                connection.outlet.send(encode(Refused(known, refusal.message)))
            return
        if not self._has(client, connection):
            return  # it left while we asked
        rule = self._rule.overlaid(message.selective)
        self._board.expect(subscription, client.connection_id, checked.tables, rule)
        self._deadlines[subscription] = time.monotonic() + self._settings.subscribe_timeout_s
        self._commands.subscribe(subscription, message, identity, checked, asked_us=asked_us)

    def _has(self, client: Client, connection: Connection) -> bool:
        return self._connections.get(client.connection_id) is connection

    def _take(self, delivery: Delivery) -> None:
        if delivery.HasField("delta"):
            self._perform(self._board.deliver(delivery.delta))
        elif delivery.subscription.HasField("refused"):
            self._perform(self._board.refuse(delivery.subscription))

    def _give_up_overdue(self, now_s: float) -> None:
        waited = f"Execution error: no result within {self._settings.subscribe_timeout_s:.0f} s"
        for subscription in [one for one, deadline_s in self._deadlines.items() if now_s > deadline_s]:
            self._perform(self._board.give_up(subscription, waited))
            if self._board.awaits(subscription):
                self._deadlines[subscription] = now_s + self._settings.subscribe_timeout_s
            else:
                del self._deadlines[subscription]

    def _perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Fan(parcel=parcel, to=to):
                    for one in to:
                        one.line.outlet.send(parcel.addressed(one.key))
                    self._metrics.sent(parcel.tally, len(to))
                case Begin(subscriber=one, has_key=has_key):
                    self._deadlines.pop(one.id, None)
                    one.line.outlet.send(one.ack)
                    self._metrics.began(one.tables, has_key=has_key)
                case Send(line=line, data=data):
                    line.outlet.send(data)
                case Ask(query_id=query_id):
                    self._metrics.resyncs.inc()
                    self._commands.request_snapshot(query_id)
                case End(subscription=subscription):
                    self._commands.unsubscribe(subscription)
        self._metrics.subscriptions.set(len(self._board))
