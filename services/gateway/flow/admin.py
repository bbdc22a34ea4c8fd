"""Gathers what the administrators' page shows, and keeps ten minutes of figures so that its charts begin full."""

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from services.gateway.core.admin import (
    Page,
    SubscriptionRow,
    binary_row,
    cdc_row,
    hops,
    page_of,
    query_shown,
    service_shown,
)
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.errors import CursorsUnavailable, RpcRefused
from services.gateway.flow.cdc.door import CdcDoor
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.flow.deliver import Delivery
from services.gateway.inbound.status import Statuses
from services.gateway.outbound.admin_tables import AdminTables

SAMPLED_S = 2.0
SAMPLES_KEPT = 300
# So many subscriptions are looked through; the statistics count all.
MOST_LISTED = 10_000
LISTED_S = 1.0


class Admin:
    def __init__(
        self,
        *,
        cdc: CdcDoor,
        log: ChangeLog,
        delivery: Delivery,
        statuses: Statuses,
        tables: AdminTables,
        deliveries_behind: Callable[[], int],
    ) -> None:
        self._cdc, self._log, self._delivery, self._statuses = cdc, log, delivery, statuses
        self._tables, self._deliveries_behind = tables, deliveries_behind
        self._samples: deque[dict[str, float]] = deque(maxlen=SAMPLES_KEPT)
        self._database: str | None = None
        self._listed: tuple[float, list[SubscriptionRow], str | None] = (0.0, [], None)

    async def run(self) -> None:
        """Take samples, until cancelled."""
        self._statuses.start()
        seen: tuple[float, int] | None = None
        while True:
            now_s, latest = time.monotonic(), self._log.latest
            if seen is not None and self._log.is_known:
                rate = max(0, latest - seen[1]) / (now_s - seen[0])
                self._samples.append(await self._sample(rate))
            seen = (now_s, latest) if self._log.is_known else None
            await asyncio.sleep(SAMPLED_S)

    def close(self) -> None:
        self._statuses.close()
        self._tables.close()

    @property
    def samples(self) -> list[dict[str, float]]:
        """The oldest first."""
        return list(self._samples)

    async def overview(self) -> dict[str, Any]:
        now_us, statuses = time.time_ns() // 1000, self._statuses.every()
        road = hops(
            statuses,
            durable_at=self._statuses.durable_lsn,
            log_lsn=self._log.lsn,
            deliveries_behind=self._deliveries_behind(),
            now_us=now_us,
        )
        return {
            "at_ms": now_us // 1000,
            "database": await self._named(),
            "services": [service_shown(one, now_us) for one in statuses],
            "hops": [{"from": hop.of, "to": hop.to, "by": hop.by, "lag": hop.lag, "unit": hop.unit} for hop in road],
            "cdc": await self._cdc.counted(),
            "live_queries": sum(one.queries_total for one in statuses),
            "binary_subscriptions": sum(1 for _ in self._delivery.every()),
            "sample": self._samples[-1] if self._samples else None,
        }

    def queries(self) -> dict[str, Any]:
        subscribers = Counter(one.query_id for one, _ in self._delivery.every() if one.query_id is not None)
        workers = [one for one in self._statuses.every() if one.service == "recompute"]
        shown = [query_shown(query, worker, subscribers) for worker in workers for query in worker.queries]
        return {"queries": shown, "total": sum(worker.queries_total for worker in workers), "workers": len(workers)}

    async def subscriptions(self, *, search: str, state: str, door: str, offset: int, limit: int) -> dict[str, Any]:
        rows, trouble = await self._rows()
        page: Page = page_of(rows, search=search, state=state, door=door, offset=offset, limit=limit)
        return {
            "subscriptions": page.rows,
            "found": page.found,
            "total": page.total,
            "by_state": page.by_state,
            "trouble": trouble,
        }

    async def subscription(self, sub_id: str, caller: HttpIdentity) -> dict[str, Any]:
        """One of the CDC door, as it stands now; RpcRefused if there is none."""
        kept = await self._cdc.found(sub_id, caller)
        window, wishes = self._log.window, kept.subscription.wishes
        return {
            "subscription": cdc_row(kept.subscription, kept.cursor, window),
            "ops": wishes.ops,
            "columns": wishes.columns,
            "format": wishes.format,
            "earliest_offset": window.earliest,
            "latest_offset": window.latest,
            "at_ms": time.time_ns() // 1_000_000,
        }

    async def tables(self) -> dict[str, Any]:
        replicas = {
            one.oid: {"phase": one.phase, "rows": one.rows, "overlay_rows": one.overlay_rows}
            for worker in self._statuses.every()
            for one in worker.tables
        }
        found = await self._tables.every()
        return {"tables": [{**one, "replica": replicas.get(one["oid"])} for one in found]}

    async def _rows(self) -> tuple[list[SubscriptionRow], str | None]:
        """Of all doors, at most a second old; and why some are missing."""
        until_s, rows, trouble = self._listed
        if until_s > time.monotonic():
            return rows, trouble
        trouble = None
        rows = [binary_row(one, behind) for one, behind in self._delivery.every()]
        try:
            kept = await self._cdc.every_kept(MOST_LISTED)
            rows += [cdc_row(one.subscription, one.cursor, self._log.window) for one in kept]
        except CursorsUnavailable as error:
            trouble = str(error)
        self._listed = time.monotonic() + LISTED_S, rows, trouble
        return rows, trouble

    async def _named(self) -> str | None:
        """The database's name; None while PostgreSQL does not tell it."""
        with contextlib.suppress(RpcRefused):
            self._database = self._database or await self._cdc.database()
        return self._database

    async def _sample(self, rate: float) -> dict[str, float]:
        stats = await self._cdc.counted()
        return {
            "at_ms": time.time_ns() // 1_000_000,
            "changes_per_s": round(rate, 2),
            "freshness_ms": round(1000 * self._log.freshness_s, 1),
            "max_lag": stats.get("max_lag", 0),
            "min_remaining": stats.get("min_remaining_until_resnapshot", 0),
            "active": stats.get("active_subscriptions", 0),
            "paused": stats.get("paused_subscriptions", 0),
            "pressured": stats.get("pressured_subscriptions", 0),
            "lost": stats.get("resnapshot_subscriptions", 0),
        }
