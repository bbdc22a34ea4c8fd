"""Executes commands on the index of subscriptions in batches; what follows of a batch is written before the next one.

A registry may lose the partition of `commands` at any moment. What it has not written then it does not write: the
commands are not acknowledged, so that the next owner carries them out again, and the records that it makes of them
replace ours. A process that was frozen does not know yet that it lost the partition. So nothing is written on a proof
of ownership that is older than a third of the session timeout, and what Kafka has not taken within another third is
given up. The window that remains is a few instructions between looking at the clock and handing bytes to the socket;
for what slips through it every owner reads the topics a second time and mends what differs from what it holds.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.commands_pb2 import Command
from proto.tidewire.v1.queries_pb2 import Query
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from services.registry.core.limits import SubscriptionLimits
from services.registry.core.subscription_index import SubscriptionIndex
from services.registry.core.writes import Write, batch
from services.registry.errors import Superseded
from services.registry.metrics import Metrics
from services.registry.outbound.queries import Queries
from services.registry.outbound.subscriptions import Subscriptions
from services.registry.settings import Registry

# This process was stalled if leases were not checked for so many intervals, and at least so long.
STALL_CHECKS = 3
STALL_S = 10.0
# The topics are read a second time after so many session timeouts.
SECOND_LOOK_SESSIONS = 2

TopicContents = tuple[dict[bytes, Query], dict[bytes, SubscriptionRecord]]


class CommandExecutor:
    """Keeps the index while the partition of `commands` is ours; `prove` asks Kafka whether it is."""

    def __init__(
        self,
        settings: Registry,
        *,
        subscriptions: Subscriptions,
        queries: Queries,
        prove: Callable[[int | None], Awaitable[bool]],
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._subscriptions, self._queries = settings, subscriptions, queries
        self._prove, self._metrics, self._log, self._clock = prove, metrics, log, clock
        self._index: SubscriptionIndex | None = None
        self._look_again_us: int | None = None
        # How many times the partition was taken from us.
        self.tenure = 0
        self._proven_s: float | None = None
        # The offset behind the last command carried out, once there is one.
        self._done: int | None = None
        # Where `commands` ended at the last look at the leases.
        self._end: int | None = None
        self._deaf = False
        # A batch and the timer must not change the index at the same time.
        self._turn = asyncio.Lock()

    async def carry_out(self, commands: Sequence[Command], *, tenure: int, end: int) -> None:
        """Raises Superseded if the partition went from us before all was written; `end` is the next one's offset."""
        async with self._turn:
            index, now_us = await self._restored(tenure), self._now_us()
            await self._write([write for command in commands for write in index.obey(command, now_us)], tenure)
            self._done = end
            self._show(index)
        self._metrics.batches.inc()
        for command in commands:
            self._metrics.commands.labels(command.WhichOneof("body") or "none").inc()

    async def expire(self, end: int | None) -> None:
        """End what nobody has renewed; `end` is the end of `commands`, None if Kafka does not answer.

        Renewals that we have not read count as well: nobody's lease ends while Kafka is away or we are behind by more
        than the commands since the last look.
        """
        tenure = self.tenure
        async with self._turn:
            if end is None:
                self._deaf = True
                return
            index, now_us = await self._restored(tenure), self._now_us()
            if self._deaf:
                index.renew_all(now_us)
                self._deaf = False
            wanted, self._end = self._end, end
            if wanted is not None and (self._done is None or self._done >= wanted):
                await self._write(index.expire(now_us), tenure)
            await self._look_again(index, now_us, tenure)
            self._show(index)

    async def release(self) -> None:
        """Another registry may write from now on; returns when nothing of ours is on its way."""
        self.tenure += 1
        async with self._turn:
            self._index = self._done = self._end = self._proven_s = None

    async def _restored(self, tenure: int) -> SubscriptionIndex:
        if self._index is None:
            settings = self._settings
            index = SubscriptionIndex(
                SubscriptionLimits(
                    settings.owner_limit,
                    settings.global_limit,
                    settings.subscribes_per_s,
                    settings.login_limit,
                    settings.statement_bytes,
                    settings.record_bytes,
                ),
                stall_us=int(max(STALL_S, STALL_CHECKS * settings.lease_check_s) * 1e6),
            )
            await self._ours(tenure)
            held = await asyncio.to_thread(self._held)
            now_us = self._now_us()
            await self._write(index.restore(*held, now_us), tenure)
            self._look_again_us = now_us + int(SECOND_LOOK_SESSIONS * settings.session_timeout_s * 1e6)
            self._log.info("subscriptions_restored", subscriptions=index.subscriptions, queries=index.queries)
            self._index = index
        return self._index

    async def _look_again(self, index: SubscriptionIndex, now_us: int, tenure: int) -> None:
        if self._look_again_us is None or now_us < self._look_again_us:
            return
        self._look_again_us = None
        repairs = list(index.repairs(*await asyncio.to_thread(self._held), now_us))
        if repairs:
            self._log.warning("late_records_repaired", records=len(repairs))
            self._metrics.repaired.inc(len(repairs))
            await self._write(repairs, tenure)

    async def _write(self, writes: Iterable[Write], tenure: int) -> None:
        together = batch(writes)
        if together.subscriptions:
            await self._ours(tenure)
            await asyncio.to_thread(self._subscriptions.put, together.subscriptions)
        if together.queries:
            await self._ours(tenure)
            await asyncio.to_thread(self._queries.put, together.queries)
        self._metrics.refused.inc(sum(one.is_refusal for one in together.subscriptions))

    async def _ours(self, tenure: int) -> None:
        """Raise Superseded unless the partition is ours, and surely so for two thirds of the session timeout."""
        now_s = time.monotonic()
        if tenure == self.tenure and (self._proven_s is None or now_s - self._proven_s > self._settings.proof_s):
            if not await self._prove(self._done):
                raise Superseded
            self._proven_s = now_s
        if tenure != self.tenure:
            raise Superseded

    def _held(self) -> TopicContents:
        return self._queries.held(), self._subscriptions.held()

    def _show(self, index: SubscriptionIndex) -> None:
        self._metrics.subscriptions.set(index.subscriptions)
        self._metrics.queries.set(index.queries)

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)
