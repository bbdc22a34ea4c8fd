"""All parts of the CDC door of one gateway: made, run and closed together."""

import asyncio
import contextlib

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from services.chassis.health import PartProgress
from services.gateway.core.cdc.tail import TailLimits
from services.gateway.errors import RpcRefused
from services.gateway.flow.cdc.door import CdcDoor
from services.gateway.flow.cdc.feeds import Feeds
from services.gateway.flow.cdc.fence import Fence
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.flow.cdc.queries import Queries
from services.gateway.flow.cdc.snapshots import Snapshots
from services.gateway.flow.cdc.streams import Streams
from services.gateway.flow.cdc.watch import CursorWatch
from services.gateway.inbound.changes import Changes, PastChanges
from services.gateway.inbound.http_port.app import Door
from services.gateway.inbound.http_port.rpc import RpcDoor
from services.gateway.inbound.http_port.streams import StreamDoor
from services.gateway.metrics import CdcMetrics
from services.gateway.outbound.cdc_catalog import CdcCatalog
from services.gateway.outbound.cursors import Cursors
from services.gateway.outbound.prepared_runs import PreparedRuns
from services.gateway.outbound.table_pages import TablePages
from services.gateway.settings import Settings

# A long poll answers so long before its request would be given up.
ANSWER_BEFORE_S = 2.0
MEASURED_S = 5.0


class CdcParts:
    def __init__(self, settings: Settings, registry: CollectorRegistry, log: FilteringBoundLogger) -> None:
        own, http, postgres = settings.cdc, settings.gateway.http, settings.postgres
        self._changes, self._past = Changes(settings.kafka, retention=own.retention_events), PastChanges(settings.kafka)
        self._log = ChangeLog(
            self._past,
            retention=own.retention_events,
            limits=TailLimits(own.tail_events, own.tail_bytes),
            log=log,
        )
        self._cursors = Cursors(settings.redis, settings.kafka, log=log)
        self._catalog = CdcCatalog(postgres)
        self._runs = PreparedRuns(postgres, statement_timeout_ms=own.statement_timeout_ms, most_rows=own.max_rows)
        queries = Queries(self._cursors, self._runs, self._log)
        fence = Fence(self._catalog, self._log)
        feeds = self._feeds = Feeds(self._catalog, queries, self._log, fence=fence)
        self._watch = CursorWatch(self._cursors)
        longest_s = max(0.0, http.request_timeout_s - ANSWER_BEFORE_S)
        self._door = CdcDoor(
            own,
            self._log,
            cursors=self._cursors,
            feeds=feeds,
            fence=fence,
            queries=queries,
            watch=self._watch,
            longest_wait_ms=int(1000 * longest_s),
        )
        self._pages = TablePages(postgres, statement_timeout_ms=own.statement_timeout_ms)
        self._snapshots = Snapshots(self._log, self._catalog, self._pages, door=self._door)
        streams = Streams(own, self._log, door=self._door, feeds=feeds, watch=self._watch)
        self.doors: tuple[Door, ...] = (
            RpcDoor(self._door, self._door),
            StreamDoor(streams, self._snapshots, unread_timeout_s=http.unread_timeout_s),
        )
        self._metrics = CdcMetrics(registry)

    @property
    def door(self) -> CdcDoor:
        return self._door

    @property
    def change_log(self) -> ChangeLog:
        return self._log

    async def run(self, progress: PartProgress) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._log.follow(self._changes, progress))
            group.create_task(self._cursors.keep())
            group.create_task(self._watch.keep())
            group.create_task(self._measure())

    async def close(self) -> None:
        for part in (self._snapshots, self._changes, self._past, self._catalog, self._runs, self._pages):
            part.close()
        await self._cursors.close()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURED_S)
            with contextlib.suppress(RpcRefused):
                await self._feeds.settle()  # so that marks which nobody asks about are not kept
            held, held_bytes = self._log.held
            self._metrics.seen(len(self._watch), held, held_bytes)
            if self._cursors.trouble is None and self._log.is_known:
                self._metrics.counted(await self._door.counted())
