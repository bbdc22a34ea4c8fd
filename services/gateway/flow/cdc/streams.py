"""Streams of a subscription: its events as they come, with control events, until it ends (S32 to S39)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import orjson

from services.gateway.core.cdc.pieces import Control, Events, Piece, Silence
from services.gateway.core.cdc.subscription import Owner
from services.gateway.core.cdc.window import Resnapshot, State, backpressure, lost_before
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.errors import NotVisibleYet, RpcRefused
from services.gateway.flow.cdc.door import CdcDoor
from services.gateway.flow.cdc.feed import Feed, Reach
from services.gateway.flow.cdc.feeds import Feeds
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.flow.cdc.watch import CursorWatch, Watched
from services.gateway.outbound.cursors import Kept
from services.gateway.settings import Cdc as Settings

EVENTS_A_BATCH = 64
EVENTS_A_READ = 2_048
# However quiet it is, a stream looks at its rights, its window and its cursor this often.
LOOK_S = 1.0
RIGHTS_S = 5.0


# The caller as it is now; None if its credentials hold no longer.
Recheck: TypeAlias = Callable[[HttpIdentity], Awaitable[HttpIdentity | None]]


class Streams:
    def __init__(self, settings: Settings, log: ChangeLog, *, door: CdcDoor, feeds: Feeds, watch: CursorWatch) -> None:
        self._settings, self._log, self._door, self._feeds, self._watch = settings, log, door, feeds, watch

    async def open(
        self, sub_id: str, from_offset: int | None, caller: HttpIdentity, recheck: Recheck
    ) -> AsyncIterator[Piece]:
        """The pieces, in order; raises RpcRefused at once if there is nothing to stream."""
        await self._door.passed_fence()
        kept, feed = await self._door.opened(sub_id, caller)
        stream = _Stream(self._settings, self._log, self._feeds, kept, feed, caller, recheck)
        return stream.pieces(self._watch, from_offset)


class _Stream:
    def __init__(
        self,
        settings: Settings,
        log: ChangeLog,
        feeds: Feeds,
        kept: Kept,
        feed: Feed,
        caller: HttpIdentity,
        recheck: Recheck,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._log, self._feeds, self._kept = settings, log, feeds, kept
        self._feed, self._caller, self._recheck, self._clock = feed, caller, recheck, clock
        self._state = State.HEALTHY
        self._position = 0
        self._must_look_at_horizon = True
        self._checked_s = self._spoke_s = clock()

    async def pieces(self, watch: CursorWatch, from_offset: int | None) -> AsyncIterator[Piece]:
        """Positions never fall; what is told was read by the rights of the moment."""
        self._position = max(from_offset or 0, self._kept.cursor.acked)
        with watch.watching(self._kept.subscription.sub_id, self._kept.cursor) as watched:
            while watched.cursor is not None:
                ended = False
                async for piece in self._turn(watched):
                    yielded_s = self._clock()
                    yield piece
                    self._spoke_s = self._clock()
                    # A client that left it unread for long is judged by where it stands then.
                    self._must_look_at_horizon |= self._spoke_s - yielded_s > self._settings.slow_s
                    ended = isinstance(piece, Control) and piece.name != "backpressure"
                if ended:
                    return

    async def _turn(self, watched: Watched) -> AsyncIterator[Piece]:
        """What there is now, or a wait until there may be something."""
        refusal = await self._refusal()
        if isinstance(refusal, NotVisibleYet):
            if self._clock() - self._spoke_s >= self._settings.keep_alive_s:
                yield Silence()
            return  # it was waited for, and is again
        if refusal is not None:
            yield self._error(refusal)
            return
        cursor = watched.cursor
        if cursor is None:
            return
        watched.changed.clear()
        window = self._log.window
        pressure = backpressure(window, cursor)
        if pressure.state is not self._state and pressure.state is not State.HEALTHY:
            yield Control("backpressure", self._position, orjson.dumps(pressure.shown))
        self._state = pressure.state
        self._position = max(self._position, cursor.acked)
        if self._must_look_at_horizon or cursor.history < window.history:
            stop = lost_before(window, cursor, self._position)
            if stop is not None:
                yield self._resnapshot(stop, watched)
                return
        if cursor.paused:
            self._must_look_at_horizon = True
            await self._wait(watched.changed.wait())
        else:
            self._must_look_at_horizon = False
            async for piece in self._read(watched):
                yield piece
        if self._clock() - self._spoke_s >= self._settings.keep_alive_s:
            yield Silence()

    async def _read(self, watched: Watched) -> AsyncIterator[Piece]:
        with self._log.listening(self._feed.tables) as changed:
            # Who is behind reads more at once than it tells at once: each read of Kafka has its price.
            is_behind = not self._log.holds(self._position)
            reach = await self._feed.read(self._position, EVENTS_A_READ if is_behind else EVENTS_A_BATCH)
            went_on = reach.scanned > self._position
            refusal = await self._unconfirmed(reach)
            if refusal is not None:
                if not isinstance(refusal, NotVisibleYet):
                    yield self._error(refusal)
                return
            for place in range(0, len(reach.events), EVENTS_A_BATCH):
                batch = reach.events[place : place + EVENTS_A_BATCH]
                yield Events(batch)
                self._position = batch[-1].seq
            self._position = max(self._position, reach.scanned)
            if reach.stop is not None:
                yield self._resnapshot(reach.stop, watched)
            elif not reach.events and not reach.is_stale and not (went_on and self._position < self._log.latest):
                await self._wait(changed.wait(), watched.changed.wait())

    async def _unconfirmed(self, reach: Reach) -> RpcRefused | None:
        try:
            if reach.events:
                await self._feeds.confirm(self._feed, Owner.of(self._caller), [told.seq for told in reach.events])
        except RpcRefused as refusal:
            return refusal
        return None

    def _resnapshot(self, stop: Resnapshot, watched: Watched) -> Control:
        window, cursor = self._log.window, watched.cursor or self._kept.cursor
        data = {
            "events": [],
            "next_offset": stop.offset,
            "earliest_offset": window.earliest,
            "latest_offset": window.latest,
            "backpressure": backpressure(window, cursor, must_resnapshot=True).shown,
            **stop.shown,
        }
        return Control("resnapshot", stop.offset, orjson.dumps(data))

    async def _refusal(self) -> RpcRefused | None:
        """Whether the caller may still read this; the feed is made anew when tables changed."""
        now_s = self._clock()
        try:
            if now_s - self._checked_s >= RIGHTS_S:
                self._checked_s = now_s
                caller = await self._recheck(self._caller)
                if caller is None:
                    return RpcRefused("unauthorized", "the credentials hold no longer")
                self._caller = caller
            self._feed = await self._feeds.feed(self._kept.subscription, Owner.of(self._caller))
        except RpcRefused as refusal:
            return refusal
        return None

    def _error(self, refusal: RpcRefused) -> Control:
        data = {"code": refusal.code, "message": refusal.message, "details": refusal.details}
        return Control("error", self._position, orjson.dumps(data))

    async def _wait(self, *waits: Awaitable[object]) -> None:
        """Until one of them is over, or it is time to look again."""
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
