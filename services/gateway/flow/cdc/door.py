"""The methods of the CDC door."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from services.chassis.metrics import build_version
from services.gateway.core.cdc.parameters import refuse_unknown
from services.gateway.core.cdc.pieces import Told
from services.gateway.core.cdc.stats import cdc_stats
from services.gateway.core.cdc.subscription import Owner, Subscription, wishes_of
from services.gateway.core.cdc.window import Cursor, Resnapshot, Window, backpressure, lost_before
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.nesting import NestedTooDeep, read_json
from services.gateway.errors import CursorsUnavailable, RpcRefused
from services.gateway.flow.cdc.feed import Feed
from services.gateway.flow.cdc.feeds import Feeds
from services.gateway.flow.cdc.fence import Fence
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.flow.cdc.queries import Queries
from services.gateway.flow.cdc.watch import CursorWatch
from services.gateway.outbound.cursors import Cursors, Kept
from services.gateway.settings import Cdc as Settings

NAME = "Tidewire"
SKEINQL = "1.0"
DEFAULT_LIMIT = 200
MOST_EVENTS = 10_000
MOST_WAIT_MS = 30_000
# An answer goes on until it has so many bytes, or took so long.
MOST_BYTES = 8 * 1024 * 1024
SCAN_S = 5.0
LARGEST_OFFSET = 2**53
STATS_S = 1.0
# A poll that waits looks this often whether tables or rights have changed.
LOOK_S = 1.0
RETRY: dict[str, object] = {"retry": True}


class _Gathered(Struct, frozen=True):
    """What a poll found, up to where it looked, and whether it could look at all."""

    events: list[Told]
    scanned: int
    stop: Resnapshot | None = None
    is_whole: bool = True


class CdcDoor:
    """One for the process; callers are verified, parameters are not."""

    def __init__(
        self,
        settings: Settings,
        log: ChangeLog,
        *,
        cursors: Cursors,
        feeds: Feeds,
        fence: Fence,
        queries: Queries,
        watch: CursorWatch,
        longest_wait_ms: int = MOST_WAIT_MS,
    ) -> None:
        self._longest_wait_ms = longest_wait_ms
        self._settings, self._log, self._cursors, self._feeds = settings, log, cursors, feeds
        self._fence, self._queries, self._watch = fence, queries, watch
        self._stats: tuple[float, dict[str, int]] = (0.0, {})
        self._started_s = time.monotonic()
        self._methods = {
            "system.ping": self._ping,
            "system.version": self._version,
            "system.capabilities": self._capabilities,
            "stats.snapshot": self._snapshot,
            "query.prepare": self._prepare,
            "query.drop": self._drop,
            "cdc.subscribe_table": self._subscribe_table,
            "cdc.subscribe_query": self._subscribe_query,
            "cdc.poll": self._poll,
            "cdc.ack": self._ack,
            "cdc.pause": self._pause,
            "cdc.resume": self._resume,
            "cdc.close": self._close,
        }

    async def call(self, method: str, params: Mapping[str, Any], caller: HttpIdentity) -> Any:
        """What the method answers; RpcRefused, or CursorsUnavailable."""
        called = self._methods.get(method)
        if called is None:
            raise RpcRefused("not_supported", f"unknown method {method!r}", details={"method": method})
        refuse_unknown(method, params)
        return await called(params, Owner.of(caller))

    @property
    def methods(self) -> list[str]:
        return sorted(self._methods)

    async def opened(self, sub_id: str, caller: HttpIdentity) -> tuple[Kept, Feed]:
        """A subscription for a stream or a snapshot of this caller, with its feed."""
        self._refuse_unknown_log()
        kept = await self._kept(sub_id, Owner.of(caller))
        return kept, await self._feeds.feed(kept.subscription, Owner.of(caller), anew=True)

    async def result(self, query_id: str, args: str | None, caller: HttpIdentity) -> tuple[dict[str, Any], str]:
        """A prepared query's result of now, and its ETag; `args` as JSON."""
        query = await self._queries.owned(query_id, Owner.of(caller))
        try:
            literals = read_json(args) if args else []
        except NestedTooDeep as error:
            raise _bad(f"args: {error}", "args") from None
        except orjson.JSONDecodeError:
            raise _bad("args is no JSON", "args") from None
        if not isinstance(literals, list):
            raise _bad("args must be a list of typed literals", "args")
        await self._fence.passed()
        result = await self._queries.result(query, tuple(literals))
        return {"query_id": query_id, "etag": result.etag, "data": result.shown}, result.etag

    async def passed_fence(self) -> bool:
        return await self._fence.passed()

    async def statistics(self) -> dict[str, int]:
        """Of all subscriptions of all gateways, at most a second old."""
        until_s, held = self._stats
        if not held or until_s <= time.monotonic():
            every = await self._cursors.every()
            held = cdc_stats(self._log.window, every)
            self._stats = time.monotonic() + STATS_S, held
        return held

    async def database(self) -> str:
        """The name that `db` must be."""
        return await self._feeds.database()

    async def found(self, sub_id: str, caller: HttpIdentity) -> Kept:
        """A subscription that this caller may use."""
        return await self._kept(sub_id, Owner.of(caller))

    async def every_kept(self, most: int) -> list[Kept]:
        """Subscriptions of all gateways, for operators; CursorsUnavailable."""
        return await self._cursors.listed(most)

    async def counted(self) -> dict[str, int]:
        """The statistics for metrics; empty while they cannot be had."""
        try:
            return await self.statistics()
        except CursorsUnavailable:
            return {}

    async def _ping(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        return {"pong": True, "time_unix_ms": time.time_ns() // 1_000_000}

    async def _version(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        return {"name": NAME, "version": build_version(), "skeinql": SKEINQL}

    async def _capabilities(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        return {"skeinql": SKEINQL, "mysql_compat": False, "etag_queries": True, "cdc": True, "methods": self.methods}

    async def _snapshot(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        if not owner.is_privileged:
            raise RpcRefused("forbidden", "statistics are for the service roles service, dba and system")
        return {"uptime_s": int(time.monotonic() - self._started_s), "cdc": await self.statistics()}

    async def _prepare(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        mine = await self._cursors.count_owned("queries", owner.name, owner.database_role)
        if mine >= self._settings.queries_per_owner:
            raise RpcRefused("conflict", f"more than {mine} prepared queries of one owner are not kept: drop some")
        query, result, oids = await self._queries.prepare(_text(params, "sql"), owner)
        tables = await self._feeds.names(oids)
        return {"query_id": query.query_id, "etag": None if result is None else result.etag, "tables": tables}

    async def _drop(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        query_id = _text(params, "query_id")
        await self._queries.drop(query_id, owner)
        return {"query_id": query_id, "dropped": True}

    async def _subscribe_table(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        self._refuse_large(params)
        db, name, wishes = _text(params, "db"), _text(params, "table"), wishes_of(params)
        if db != await self._feeds.database():
            raise RpcRefused("not_found", f"database not found: {db}")
        table = await self._feeds.resolve(name, owner)
        if table is None:
            raise RpcRefused("not_found", f"table not found: {db}.{name}")
        await self._feeds.refuse_unless_readable(owner, frozenset({table.oid}))
        await self._feeds.judge(table, wishes, name)
        return await self._subscribed(owner, wishes=wishes, table=(table.oid, table.schema, table.name))

    async def _subscribe_query(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        self._refuse_large(params)
        query_id, args, wishes = _text(params, "query_id"), params.get("args") or [], wishes_of(params)
        if not isinstance(args, list):
            raise _bad("args must be a list of typed literals", "args")
        query = await self._queries.owned(query_id, owner)
        await self._queries.result(query, tuple(args))  # refuses args that do not fit
        await self._feeds.refuse_unknown_columns(query_id, wishes)
        return await self._subscribed(owner, wishes=wishes, query=(query_id, tuple(args)))

    async def _subscribed(self, owner: Owner, **of: Any) -> dict[str, Any]:
        self._refuse_unknown_log()
        sub_id = f"sub_{secrets.token_hex(8)}"
        # Refuses what cannot be told; from here on its tables and rights are known.
        feed = await self._feeds.made(Subscription(sub_id=sub_id, owner=owner, start=0, history=0, **of))
        grounds = await self._feeds.refuse_unless_readable(owner, feed.roots)
        fenced = await self._fence.passed()
        window = self._log.window
        subscription = Subscription(
            sub_id=sub_id, owner=owner, start=window.latest, history=window.history, grounds=grounds, **of
        )
        await self._refuse_more(owner)
        await self._cursors.create(subscription)
        return _fenced(
            {
                "sub_id": subscription.sub_id,
                "offset": subscription.start,
                "sse_url": f"/api/v1/cdc/sse/{subscription.sub_id}",
                "ws_url": f"/api/v1/cdc/ws/{subscription.sub_id}",
            },
            fenced,
        )

    async def _refuse_more(self, owner: Owner) -> None:
        if await self._cursors.count() >= self._settings.subscriptions:
            raise RpcRefused("conflict", "there are as many subscriptions as this gateway may keep: close some")
        mine = await self._cursors.count_owned("subs", owner.name, owner.database_role)
        if mine >= self._settings.subscriptions_per_owner:
            raise RpcRefused("conflict", f"more than {mine} subscriptions of one owner are not kept: close some")

    def _refuse_large(self, params: Mapping[str, Any]) -> None:
        """What is kept of a subscription is loaded at each of its polls."""
        if len(orjson.dumps(params)) > self._settings.subscription_bytes:
            raise RpcRefused(
                "invalid_request", f"a subscription may take {self._settings.subscription_bytes} bytes of JSON"
            )

    async def _poll(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        sub_id, from_offset = _text(params, "sub_id"), _number(params, "from_offset", most=LARGEST_OFFSET)
        limit = min(_number(params, "limit", DEFAULT_LIMIT, least=1, most=LARGEST_OFFSET), MOST_EVENTS)
        wait_ms = min(_number(params, "wait_ms", 0, most=MOST_WAIT_MS), self._longest_wait_ms)
        self._refuse_unknown_log()
        kept = await self._kept(sub_id, owner)
        fenced = await self._fence.passed()
        feed = await self._feeds.feed(kept.subscription, owner, anew=True)
        cursor, start = kept.cursor, max(from_offset, kept.cursor.acked)
        stop = lost_before(self._log.window, cursor, start)
        found = _Gathered([], start, stop)
        if stop is None and not cursor.paused:
            found = await self._gathered(feed, owner, start, limit, wait_ms)
        answer = _poll_answer(self._log.window, cursor, found.events, found.scanned, found.stop)
        return _fenced(answer, fenced and found.is_whole)

    async def _gathered(self, feed: Feed, owner: Owner, start: int, limit: int, wait_ms: int) -> "_Gathered":
        """Up to `limit` events, or what there is; if there is none, the first to come within the wait."""
        begun_s, events, scanned, size = time.monotonic(), list[Told](), start, 0
        while True:
            with self._log.listening(feed.tables) as changed:
                reach = await feed.read(scanned, limit - len(events))
                if reach.events:
                    await self._feeds.confirm(feed, owner, [told.seq for told in reach.events])
                events += reach.events
                size += sum(len(told.data) for told in reach.events)
                went_on, scanned = reach.scanned > scanned, max(scanned, reach.scanned)
                took_s = time.monotonic() - begun_s
                if reach.stop is not None:
                    return _Gathered(events, scanned, None if events else reach.stop)
                if len(events) >= limit or size > MOST_BYTES or took_s > SCAN_S + wait_ms / 1000:
                    # While DDL came faster than the feed could be made, nothing was read.
                    return _Gathered(events, scanned, is_whole=not reach.is_stale)
                if not reach.is_stale and not (went_on and scanned < self._log.latest):
                    left_s = wait_ms / 1000 - took_s
                    if events or left_s <= 0:
                        return _Gathered(events, scanned)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), min(left_s, LOOK_S))
            feed = await self._feeds.feed(feed.subscription, owner)

    async def _ack(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        sub_id, offset = _text(params, "sub_id"), _number(params, "offset", most=LARGEST_OFFSET)
        self._refuse_unknown_log()
        kept = await self._kept(sub_id, owner)
        if offset > self._log.latest:
            await self._fence.passed()  # another gateway may have read further
        window = self._log.window
        acked = min(offset, window.latest)
        # Only from within its history does a cursor belong to it.
        history = window.history if acked >= window.first - 1 else kept.cursor.history
        cursor = await self._cursors.ack(sub_id, kept, acked, history)
        return {"sub_id": sub_id, "acked_offset": self._changed(sub_id, kept, cursor).acked}

    async def _pause(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        return await self._set_paused(params, owner, True)

    async def _resume(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        return await self._set_paused(params, owner, False)

    async def _set_paused(self, params: Mapping[str, Any], owner: Owner, paused: bool) -> dict[str, Any]:
        sub_id = _text(params, "sub_id")
        self._refuse_unknown_log()
        kept = await self._kept(sub_id, owner)
        cursor = self._changed(sub_id, kept, await self._cursors.set_paused(sub_id, kept, paused))
        return {
            "sub_id": sub_id,
            "paused": cursor.paused,
            "acked_offset": cursor.acked,
            "backpressure": backpressure(self._log.window, cursor).shown,
        }

    async def _close(self, params: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
        sub_id = _text(params, "sub_id")
        await self._kept(sub_id, owner)
        await self._cursors.close_subscription(sub_id)
        self._feeds.forget(sub_id)
        self._watch.changed(sub_id, None)
        return {"sub_id": sub_id, "closed": True}

    def _changed(self, sub_id: str, kept: Kept, cursor: Cursor | None) -> Cursor:
        """Tell the streams of this gateway; raises if it was closed meanwhile."""
        if cursor is None:
            raise _unknown(sub_id)
        self._watch.changed(sub_id, cursor)
        return cursor

    async def _kept(self, sub_id: str, owner: Owner) -> Kept:
        """The subscription, if it is this caller's to use; another's is not there."""
        kept = await self._cursors.get(sub_id)
        if kept is None:
            raise _unknown(sub_id)
        holder = kept.subscription.owner
        is_own = (holder.name, holder.database_role) == (owner.name, owner.database_role)
        if not (is_own or owner.is_operator):
            raise _unknown(sub_id)
        return kept

    def _refuse_unknown_log(self) -> None:
        if not self._log.is_known:
            raise RpcRefused("internal", "the log is not read up to its end yet: try again", details=RETRY)


def _poll_answer(
    window: Window, cursor: Cursor, events: list[Told], scanned: int, stop: Resnapshot | None
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "events": [orjson.Fragment(told.data) for told in events],
        "next_offset": scanned if stop is None else stop.offset,
        "earliest_offset": window.earliest,
        "latest_offset": window.latest,
        "resnapshot_required": stop is not None,
        "backpressure": backpressure(window, cursor, must_resnapshot=stop is not None).shown,
    }
    return answer if stop is None else {**answer, **stop.shown}


def _fenced(answer: dict[str, Any], fenced: bool) -> dict[str, Any]:
    """Said only where it does not hold."""
    return answer if fenced else {**answer, "fenced": False}


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if value is None:
        raise _bad(f"Missing field: {name}", name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _bad(f"{name} must be a string", name)
    return value


def _number(params: Mapping[str, Any], name: str, default: int | None = None, *, least: int = 0, most: int) -> int:
    value = params.get(name, default)
    if value is None:
        if default is None:
            raise _bad(f"Missing field: {name}", name)
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _bad(f"{name} must be an integer from {least} to {most}", name)
    return value


def _bad(message: str, field: str) -> RpcRefused:
    return RpcRefused("invalid_request", message, details={"field": field})


def _unknown(sub_id: str) -> RpcRefused:
    return RpcRefused("not_found", f"subscription not found: {sub_id[:64]}")
