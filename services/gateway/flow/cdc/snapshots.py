"""Snapshots of a subscription's table: one state of PostgreSQL at a known offset of the log, streamed.

A snapshot S of PostgreSQL is the state at an offset only if it sees exactly the transactions that stand before that
offset in the log; a commit is in the log a moment before it is visible. If S is between, another one is taken.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from msgspec import Struct

from proto.pgoutput.messages import Column, Relation
from proto.positions import Xid
from services.changelog.snapshot import Snapshot
from services.gateway.core.cdc.events import Columns, Look
from services.gateway.core.cdc.literals import text_of
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.nesting import NestedTooDeep, read_json
from services.gateway.errors import RpcRefused
from services.gateway.flow.cdc.door import CdcDoor
from services.gateway.flow.cdc.feed import Feed
from services.gateway.flow.cdc.log import ChangeLog, Commit
from services.gateway.outbound.cdc_catalog import CdcCatalog
from services.gateway.outbound.table_pages import Page, Shape, TablePages

AT_ONCE = 4
ATTEMPTS = 50
PAGES_AHEAD = 2
EVENTS_A_READ = 200
BARRIER_S = 10.0


class Asked(Struct, frozen=True, kw_only=True):
    """From the beginning, or on behind a key of a snapshot that was at this offset."""

    after: tuple[str, ...] | None = None
    from_offset: int | None = None


class Snapshots:
    def __init__(self, log: ChangeLog, catalog: CdcCatalog, pages: TablePages, *, door: CdcDoor) -> None:
        self._log, self._catalog, self._pages, self._door = log, catalog, pages, door
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snapshots")
        self._running = 0

    async def open(
        self, sub_id: str, after: str | None, from_offset: int | None, caller: HttpIdentity
    ) -> AsyncIterator[bytes]:
        """Lines of JSON: a head with the offset, changes of rows that were sent before, rows, and an end."""
        _, feed = await self._door.opened(sub_id, caller)
        if feed.subscription.table is None:
            raise RpcRefused("not_supported", "a query has no table to take: GET /api/v1/q/{query_id} has its result")
        if self._running >= AT_ONCE:
            raise RpcRefused(
                "internal", "as many snapshots as may be are under way: try again", details={"retry": True}
            )
        asked = _asked(after, from_offset, feed)
        self._running += 1
        reading = _Reading(self, feed, asked, caller)
        try:
            await reading.begin()
        except BaseException:
            self._running -= 1
            raise
        return self._lines(reading)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _lines(self, reading: "_Reading") -> AsyncIterator[bytes]:
        try:
            async for line in reading.lines():
                yield line
        finally:
            self._running -= 1
            reading.stop()


class _Reading:
    """One snapshot under way: a thread reads pages, at most a few ahead of the client."""

    def __init__(self, snapshots: Snapshots, feed: Feed, asked: Asked, caller: HttpIdentity) -> None:
        self._log, self._catalog, self._pages = snapshots._log, snapshots._catalog, snapshots._pages
        self._threads, self._feed, self._asked, self._caller = snapshots._threads, feed, asked, caller
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Page | None] = asyncio.Queue(PAGES_AHEAD)
        self._began: asyncio.Future[tuple[Shape, int]] = self._loop.create_future()
        self._thread: asyncio.Future[bool] | None = None
        self._is_stopped = False

    async def begin(self) -> None:
        """Until a state is held that is the one at an offset."""
        for _ in range(ATTEMPTS):
            self._thread = self._loop.run_in_executor(self._threads, self._read)
            waited: list[asyncio.Future[Any]] = [self._thread, self._began]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self._began.done():
                return
            self._thread.result()  # raises what went wrong; else this state was between two
        raise RpcRefused("timeout", "no state of the table stood at one offset of the log: try again")

    async def lines(self) -> AsyncIterator[bytes]:
        shape, offset = self._began.result()
        table, wishes = self._feed.only_table, self._feed.subscription.wishes
        key = [column.name for column in table.key]
        head = {
            "offset": offset,
            "table": f"{table.schema}.{table.name}",
            "key": key,
            "columns": [name for name, _ in shape.columns],
        }
        yield orjson.dumps(head) + b"\n"
        if self._asked.from_offset is not None:
            async for told in self._replayed(self._asked.from_offset, offset):
                yield b'{"event":%s}\n' % told
        relation = Relation(
            table.oid, table.schema, table.name, "d", tuple(Column(name, oid, -1, False) for name, oid in shape.columns)
        )
        columns = Columns.of(relation, table.base_types)
        look = Look(wishes.format == "plain_json", False, True, wishes.columns)
        count = 0
        while (page := await self._queue.get()) is not None:
            count += len(page.rows)
            yield b"".join([_line(columns, row, key, look) for row in page.rows])
        assert self._thread is not None
        await self._thread
        yield orjson.dumps({"end": True, "offset": offset, "rows": count}) + b"\n"

    def stop(self) -> None:
        """The client has left, or all is read."""
        self._is_stopped = True
        while not self._queue.empty():
            self._queue.get_nowait()

    async def _replayed(self, after: int, until: int) -> AsyncIterator[bytes]:
        """What happened since the state that the rows sent before were of."""
        while after < until:
            reach = await self._feed.replay(after, until, EVENTS_A_READ)
            if reach.stop is not None or reach.is_stale:
                raise RpcRefused("conflict", "the rows sent before cannot be brought to this state: begin anew")
            for told in reach.events:
                yield told.data
            after = reach.scanned

    def _read(self) -> bool:
        """On the thread."""
        try:
            return self._pages.read(
                self._feed.only_table,
                self._feed.keys,
                self._caller.database_role,
                self._asked.after,
                self._begins,
                self._put,
            )
        finally:
            if self._began.done():
                self._put(None)

    def _begins(self, shape: Shape) -> bool:
        offset = asyncio.run_coroutine_threadsafe(self._offset_of(shape.snapshot), self._loop).result()
        if offset is None or self._is_stopped:
            return False
        self._loop.call_soon_threadsafe(self._began.set_result, (shape, offset))
        return True

    async def _offset_of(self, snapshot: Snapshot) -> int | None:
        barrier_id = await self._catalog.emit_barrier()
        try:
            await asyncio.wait_for(self._log.barrier(barrier_id), BARRIER_S)
        except TimeoutError:
            raise RpcRefused("timeout", "the log does not follow the database: try again") from None
        finally:
            self._log.forget_barrier(barrier_id)
        return offset_of(snapshot, list(self._log.commits))

    def _put(self, page: Page | None) -> bool:
        """Wait for room; False when nobody reads any more."""
        putting = asyncio.run_coroutine_threadsafe(self._queue.put(page), self._loop)
        while not self._is_stopped:
            try:
                putting.result(0.2)
                return True
            except TimeoutError:
                continue
        putting.cancel()
        return False


def offset_of(snapshot: Snapshot, commits: Sequence[Commit]) -> int | None:
    """The offset that this is the state of, if it sees the transactions up to one and none behind it."""
    seen = [snapshot.sees(Xid(commit.xid)) for commit in commits]
    first_unseen = seen.index(False) if False in seen else len(seen)
    if any(seen[first_unseen:]):
        return None
    if first_unseen < len(commits):
        return commits[first_unseen].before
    return commits[-1].seq if commits else None


def _line(columns: Columns, row: Sequence[bytes | None], key: list[str], look: Look) -> bytes:
    line: dict[str, Any] = {"row": columns.image(tuple(row), look)}
    pk = columns.key(tuple(row), key, is_plain=look.is_plain)
    # The key is always typed: it is what a read that broke off goes on behind.
    if pk is not None:
        line = {"pk": columns.key(tuple(row), key, is_plain=False), **line}
    return orjson.dumps(line) + b"\n"


def _asked(after: str | None, from_offset: int | None, feed: Feed) -> Asked:
    if after is None and from_offset is None:
        return Asked()
    if after is None or from_offset is None:
        raise _bad(
            "after and from_offset go together: the last key that came, and the offset of the snapshot it was of"
        )
    try:
        literals = read_json(after)
    except NestedTooDeep as error:
        raise _bad(f"after: {error}") from None
    except orjson.JSONDecodeError:
        raise _bad("after is no JSON") from None
    width = len(feed.only_table.key)
    if not isinstance(literals, list) or not literals or len(literals) != width:
        raise _bad(f"after must be a key: a list of {width} typed literals")
    texts = [text_of(literal) for literal in literals]
    if None in texts:
        raise _bad("a primary key is never null")
    return Asked(after=tuple(text for text in texts if text is not None), from_offset=from_offset)


def _bad(message: str) -> RpcRefused:
    return RpcRefused("invalid_request", message, details={"field": "after"})
