"""Feeds by subscription, made anew when tables change; and whether who reads them still may."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from proto.positions import Xid
from services.changelog.snapshot import Snapshot
from services.gateway.core.cdc.grounds import Grounds
from services.gateway.core.cdc.marks import NOWHERE, Judged, Tree, judged
from services.gateway.core.cdc.subscription import KeyFilter, Owner, Subscription, Wishes
from services.gateway.core.cdc.table import Table, judge, judge_bounds, judge_columns, judge_told
from services.gateway.errors import NotVisibleYet, RpcRefused
from services.gateway.flow.cdc.feed import Feed
from services.gateway.flow.cdc.fence import Fence
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.flow.cdc.rights import Rights

# What the catalog said is believed for so long, and not past a change of it in the log.
TABLES_S = 30.0
MOST_FEEDS = 20_000
# DDL is in the log before it is visible: until it is, no answer of the catalog counts.
SETTLED_WITHIN_S = 1.0
LOOK_AGAIN_S = 0.01
# So long the log is waited for to tell what the catalog says of a tree; without event triggers it may never.
AHEAD_S = 10.0
NO_RIGHT = "the role may not read this table whole: it needs SELECT on all columns, and no policy that binds it"


class Catalog(Protocol):
    async def database(self) -> str: ...
    async def find(self, name: str, role: str | None) -> int | None: ...
    async def tables(self, oids: Iterable[int]) -> dict[int, Table]: ...
    async def readable(self, role: str, oids: Iterable[int]) -> dict[int, Grounds]: ...
    async def memberships(self, role: str) -> Grounds: ...
    async def printed(self, table: Table, wishes: Wishes) -> KeyFilter: ...
    async def snapshot(self) -> Snapshot: ...


class QueryTables(Protocol):
    """What a prepared query reads, and its ETag."""

    async def dependencies(self, query_id: str, generation: int) -> frozenset[int]: ...
    async def etag(self, query_id: str, args: tuple[object, ...]) -> str | None: ...


class _Held(Struct, frozen=True):
    feed: Feed
    until_s: float


class _Known(Struct, frozen=True):
    tree: Tree
    broken: int
    # Since when the catalog is ahead of the log.
    ahead_s: float | None = None


class Feeds:
    def __init__(
        self,
        catalog: Catalog,
        queries: QueryTables,
        log: ChangeLog,
        *,
        fence: Fence,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog, self._queries, self._log, self._clock = catalog, queries, log, clock
        self._rights = Rights(catalog, log, fence=fence, settle=self.settle, clock=clock)
        self._held: OrderedDict[str, _Held] = OrderedDict()
        # By table: what its tree was when it was last looked at, and up to where it cannot be told.
        self._trees: OrderedDict[int, _Known] = OrderedDict()
        self._looking: asyncio.Task[None] | None = None
        self._database: str | None = None

    async def database(self) -> str:
        if self._database is None:
            self._database = await self._catalog.database()
        return self._database

    async def resolve(self, table: str, owner: Owner) -> Table | None:
        """By the name as it is on the role's search path, else by schema and name."""
        oid = await self._catalog.find(table, owner.database_role)
        return None if oid is None else (await self._catalog.tables([oid])).get(oid)

    async def judge(self, table: Table, wishes: Wishes, shown_name: str) -> None:
        """Refuse filters that do not fit the table."""
        judge(table, wishes, shown_name)
        judge_bounds(table, await self._catalog.printed(table, wishes))

    async def feed(self, subscription: Subscription, reader: Owner, *, anew: bool = False) -> Feed:
        """Ready to be read by this caller now; RpcRefused if the caller may not, or the table is gone.

        `anew`: ask about the right in any case. Not all that takes one is in the log: PostgreSQL fires no event trigger
        for REASSIGN OWNED, or for what is done to roles. See `confirm`.
        """
        held = self._held.get(subscription.sub_id)
        now_s, generation = self._clock(), self._log.schema_generation
        if held is None or held.feed.generation != generation or held.until_s <= now_s:
            held = _Held(await self.made(subscription), now_s + TABLES_S)
            self._held[subscription.sub_id] = held
            while len(self._held) > MOST_FEEDS:
                self._held.popitem(last=False)
        right = await self._rights.of(reader, held.feed.roots, anew=anew)
        if not right.is_given:
            raise RpcRefused("forbidden", NO_RIGHT)
        return held.feed.for_reader(await self._rights.doubts(right, subscription, reader, held.feed.roots))

    async def confirm(self, feed: Feed, reader: Owner, seqs: Sequence[int]) -> None:
        """RpcRefused unless the caller was seen to have the right when the log had these events already.

        NotVisibleYet if it may have been without it since the feed was made: the next feed knows where.
        """
        right = await self._rights.of(reader, feed.roots, at=seqs[-1])
        if not right.is_given:
            raise RpcRefused("forbidden", NO_RIGHT)
        doubts = await self._rights.doubts(right, feed.subscription, reader, feed.roots)
        if any(doubt.before < seq <= doubt.after for doubt in doubts for seq in seqs):
            raise NotVisibleYet

    async def settle(self) -> None:
        """Until PostgreSQL shows all DDL that this gateway has read: what is asked from then on counts."""
        wanted, until_s = frozenset(self._log.unsettled), self._clock() + SETTLED_WITHIN_S
        while wanted & self._log.unsettled:
            if self._clock() > until_s:
                raise NotVisibleYet
            if self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._look())
            await asyncio.shield(self._looking)

    async def _look(self) -> None:
        snapshot = await self._catalog.snapshot()
        self._log.unsettled -= {xid for xid in self._log.unsettled if snapshot.sees(Xid(xid))}
        if self._log.unsettled:
            await asyncio.sleep(LOOK_AGAIN_S)

    async def refuse_unknown_columns(self, query_id: str, wishes: Wishes) -> None:
        """A column that no table of the query has would never differ."""
        if not wishes.columns:
            return
        generation = self._log.schema_generation
        await self.settle()
        oids = await self._queries.dependencies(query_id, generation)
        tables = (await self._catalog.tables(oids)).values()
        judge_columns(frozenset(column for table in tables for column in table.columns), wishes)

    async def names(self, oids: frozenset[int]) -> list[str]:
        """Of those that are tables, as events show them."""
        found = (await self._catalog.tables(oids)).values()
        return sorted(table.shown for table in found)

    def forget(self, sub_id: str) -> None:
        self._held.pop(sub_id, None)

    async def refuse_unless_readable(self, reader: Owner, tables: frozenset[int]) -> frozenset[str]:
        """Decision 19; no answer about a right means no. What the right rests on."""
        right = await self._rights.of(reader, tables, anew=True)
        if not right.is_given:
            raise RpcRefused("forbidden", NO_RIGHT)
        return right.grounds

    async def made(self, subscription: Subscription) -> Feed:
        """As the tables are now; refused if they, or the filters, cannot be told."""
        generation = self._log.schema_generation
        await self.settle()
        self._log.forget_columns()
        if subscription.table is not None:
            oids, etag = frozenset({subscription.table[0]}), None
        else:
            oids, etag = await self._of_query(subscription, generation)
        tables = await self._catalog.tables(oids)
        if subscription.table is not None and not tables:
            raise RpcRefused("not_found", f"table not found: {subscription.table[1]}.{subscription.table[2]}")
        for table in tables.values():
            judge_told(table, subscription.wishes)
            if subscription.table is not None:
                judge(table, subscription.wishes, table.shown)
        found: list[tuple[Table, KeyFilter]] = []
        broken = NOWHERE
        for table in tables.values():
            known = self._judged(table, generation)
            broken = max(broken, known.broken)
            told = replace(table, members=known.tree.members, wider=known.tree.wider)
            found.append((told, await self._catalog.printed(table, subscription.wishes)))
        return Feed(
            subscription,
            found,
            self._log,
            database=await self.database(),
            generation=generation,
            etag=etag,
            broken=broken,
        )

    def _judged(self, table: Table, generation: int) -> _Known:
        """The tree of this table by what was known of it and the DDL since."""
        now = Tree(
            generation=generation,
            members=table.members,
            wider=table.wider,
            family=table.family,
            columns=table.columns,
            has_parts=table.has_parts,
        )
        before, now_s = self._trees.pop(table.oid, None), self._clock()
        if before is None:
            found = judged(None, now, self._log.marks.since(0))
            known = _Known(found.tree, found.broken)
        elif generation < before.tree.generation:
            known = before  # another call was first
        else:
            found = judged(before.tree, now, self._log.marks.since(before.tree.generation))
            ahead_s = (before.ahead_s or now_s) if found.is_ahead else None
            if ahead_s is not None and now_s - ahead_s > AHEAD_S:
                found, ahead_s = Judged(now, self._log.latest), None
            known = _Known(found.tree, max(before.broken, found.broken), ahead_s)
        self._trees[table.oid] = known
        while len(self._trees) > MOST_FEEDS:
            self._trees.popitem(last=False)
        return known

    async def _of_query(
        self, subscription: Subscription, generation: int
    ) -> tuple[frozenset[int], Callable[[], Awaitable[str | None]]]:
        assert subscription.query is not None
        query_id, args = subscription.query

        async def etag() -> str | None:
            return await self._queries.etag(query_id, args)

        return await self._queries.dependencies(query_id, generation), etag
