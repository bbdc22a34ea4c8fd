"""The desk: commands are carried out on the roster, and what follows is written before the next one."""

import asyncio
import time
from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.commands_pb2 import Command
from services.chassis.kafka import Kafka
from services.registry.core.roster import PutQuery, PutSubscription, Roster, Write
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Registry


class Desk:
    """Knows what is subscribed as long as the partition of `commands` is ours."""

    def __init__(
        self,
        kafka: Kafka,
        settings: Registry,
        *,
        subscriptions: Subscriptions,
        queries: Queries,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kafka, self._settings = kafka, settings
        self._subscriptions, self._queries = subscriptions, queries
        self._metrics, self._log, self._clock = metrics, log, clock
        self._roster: Roster | None = None
        # A command and the timer may come at once; each must find the roster as the other left it.
        self._turn = asyncio.Lock()

    async def carry_out(self, command: Command) -> None:
        async with self._turn:
            roster = await self._restored()
            await self._write(list(roster.obey(command, self._now_us())))
        self._metrics.commands.labels(command.WhichOneof("body") or "none").inc()

    async def expire(self) -> None:
        """End what nobody has renewed."""
        async with self._turn:
            roster = await self._restored()
            await self._write(list(roster.expire(self._now_us())))
        self._metrics.subscriptions.set(roster.subscriptions)
        self._metrics.queries.set(roster.queries)

    def forget(self) -> None:
        """Another registry may write from now on."""
        self._roster = None

    async def _restored(self) -> Roster:
        if self._roster is None:
            roster = Roster(owner_limit=self._settings.owner_limit, global_limit=self._settings.global_limit)
            held = await asyncio.to_thread(lambda: (Queries.held(self._kafka), Subscriptions.held(self._kafka)))
            await self._write(roster.restore(*held, self._now_us()))
            self._log.info("roster_restored", subscriptions=roster.subscriptions, queries=roster.queries)
            self._roster = roster
        return self._roster

    async def _write(self, writes: Sequence[Write]) -> None:
        """A fanout must know of a subscription before its first result comes, so `subscriptions` are safe first."""
        for delivery in [await self._subscriptions.put(one) for one in writes if isinstance(one, PutSubscription)]:
            await delivery
        for delivery in [await self._queries.put(one) for one in writes if isinstance(one, PutQuery)]:
            await delivery
        refused = sum(1 for one in writes if isinstance(one, PutSubscription) and _is_refusal(one))
        self._metrics.refused.inc(refused)

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)


def _is_refusal(write: PutSubscription) -> bool:
    return write.record is not None and write.record.HasField("refused")
