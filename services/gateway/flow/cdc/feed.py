"""A subscription made ready to be read: its tables, its filters, how its events look."""

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from proto.streams.changes import RowChanged, Truncated
from services.gateway.core.cdc.events import (
    Columns,
    Look,
    changed_keys_of,
    encoded,
    event_of,
    invalidation_of,
)
from services.gateway.core.cdc.marks import NOWHERE, Doubt
from services.gateway.core.cdc.matching import Rules, rules_of, tells_key
from services.gateway.core.cdc.pieces import Told
from services.gateway.core.cdc.subscription import KeyFilter, Subscription
from services.gateway.core.cdc.table import Table
from services.gateway.core.cdc.tail import Change, Entry
from services.gateway.core.cdc.window import (
    HORIZON,
    KEY_CHANGED,
    PARTS_CHANGED,
    RIGHTS_CHANGED,
    TRUNCATED,
    UNWRITABLE,
    Resnapshot,
    Window,
)
from services.gateway.flow.cdc.log import ChangeLog

INVALIDATE = "invalidate"

# The ETag of a query's result of now; None where it cannot be computed.
Etag: TypeAlias = Callable[[], Awaitable[str | None]]


class Reach(Struct, frozen=True):
    """Events, up to where the log was looked through, and why it cannot be read further."""

    events: list[Told]
    scanned: int
    stop: Resnapshot | None = None
    # Tables may have changed since the feed was made: it reads nothing, and must be made anew.
    is_stale: bool = False


class _Source(Struct, frozen=True):
    table: Table
    rules: Rules
    key: list[str]
    # The columns that are the table's, of a member that may have others.
    only: frozenset[str] | None
    # What events of it look like, beside the change itself.
    shape: tuple[object, ...]


class Feed:
    """Reads for one subscription; it holds no position."""

    def __init__(
        self,
        subscription: Subscription,
        tables: list[tuple[Table, KeyFilter]],
        log: ChangeLog,
        *,
        database: str,
        generation: int,
        etag: Etag | None = None,
        broken: int = NOWHERE,
    ) -> None:
        """`broken`: up to there what was told of these tables cannot be known by what they are now."""
        self.subscription, self.generation = subscription, generation
        self._log, self._database, self._etag = log, database, etag
        self._look, self._tables = Look.of(subscription.wishes), tables
        self._sources: dict[int, _Source] = {}
        self._broken = broken
        self._doubts: Sequence[Doubt] = ()
        for table, keys in tables:
            rules, key = rules_of(table, subscription.wishes, keys), [column.name for column in table.key]
            for member in table.members:
                only = table.columns if member in table.wider else None
                self._sources[member] = _Source(table, rules, key, only, (self._look, tuple(key), only))
        self.tables = frozenset(self._sources)
        # The tables that rights are looked at of: partitions are read by the right on their table.
        self.roots = frozenset(table.oid for table, _ in tables)

    def for_reader(self, doubts: Sequence[Doubt]) -> "Feed":
        """The same for somebody whose right is in doubt at these places."""
        feed = copy.copy(self)
        feed._doubts = doubts
        return feed

    async def read(self, after: int, most: int) -> Reach:
        """The next events behind `after`, at most so many; none may mean that only others were looked at."""
        if not self._log.is_known or after >= self._log.latest:
            return Reach([], after)
        until = self._until
        if after >= until:
            return Reach([], after, is_stale=True)
        if after < self._broken:
            return Reach([], after, Resnapshot(self._broken, PARTS_CHANGED))
        stretch = await self._log.read(after, self.tables, most)
        if stretch.is_lost:
            window: Window = self._log.window
            return Reach([], after, Resnapshot(max(after, window.earliest - 1), HORIZON))
        matching: list[tuple[Entry, RowChanged]] = []
        scanned, stop = min(stretch.scanned, until), None
        for entry in stretch.entries:
            change = entry.change
            if change.seq > until:
                break
            stopping = self._stopping(change)
            if stopping is not None:
                scanned, stop = change.seq - 1, None if matching else stopping
                break
            if isinstance(change, RowChanged) and self._matches(change):
                matching.append((entry, change))
        return Reach(await self._told(matching), scanned, stop)

    @property
    def _until(self) -> int:
        """The last seq that the feed may tell: what follows DDL is told by a feed that was made after it.

        What stands before it is told all the same, as if that DDL had not come yet: else a feed that takes longer to
        make than DDL takes to come would never tell anything.
        """
        if self._log.schema_generation == self.generation:
            return self._log.latest
        last = self._log.marks.end_of(self.generation)
        return NOWHERE if last is None else last

    def _stopping(self, change: Change) -> Resnapshot | None:
        """Why this change cannot be told, though it may be one of the subscription's."""
        if not isinstance(change, RowChanged):
            return Resnapshot(change.seq, TRUNCATED if isinstance(change, Truncated) else UNWRITABLE)
        source = self._sources[change.relation.oid]
        if source.rules.keys is not None and not tells_key(change, source.key, self._columns(change).places):
            return Resnapshot(max(change.seq, self._log.marks.last_of(source.table.family)), KEY_CHANGED)
        for doubt in self._doubts:
            if doubt.before < change.seq <= doubt.after and self._matches(change):
                return Resnapshot(doubt.after, RIGHTS_CHANGED)
        return None

    async def replay(self, after: int, until: int, most: int) -> Reach:
        """All changes of the rows that the key filters let pass, up to a seq, with their new rows: for a snapshot."""
        if self._log.schema_generation != self.generation:
            return Reach([], after, is_stale=True)
        if after < self._broken:
            return Reach([], after, Resnapshot(self._broken, PARTS_CHANGED))
        stretch = await self._log.read(after, self.tables, most)
        look = Look(self._look.is_plain, False, True, self._look.columns)
        told: list[Told] = []
        for entry in stretch.entries:
            change = entry.change
            if change.seq > until:
                break
            stopping = self._stopping(change)
            if stopping is not None or not isinstance(change, RowChanged):
                return Reach([], after, stopping)
            source, columns = self._sources[change.relation.oid], self._columns(change)
            if source.rules.keys is None or source.rules.keys(change, columns.places):
                event = event_of(change, columns, source.key, self._database, look)
                told.append(Told(change.seq, change.operation, encoded(event)))
        stop = Resnapshot(after, HORIZON) if stretch.is_lost else None
        return Reach(told, min(stretch.scanned, until), stop)

    @property
    def only_table(self) -> Table:
        """Of a subscription of a table."""
        return self._tables[0][0]

    @property
    def keys(self) -> KeyFilter:
        return self._tables[0][1]

    def _matches(self, change: RowChanged) -> bool:
        source = self._sources[change.relation.oid]
        if source.rules.is_open:
            return True
        return source.rules.match(change, self._columns(change).places)

    def _columns(self, change: RowChanged) -> Columns:
        source = self._sources[change.relation.oid]
        return self._log.columns(change.relation, source.table.base_types, source.only)

    async def _told(self, matching: list[tuple[Entry, RowChanged]]) -> list[Told]:
        if self.subscription.query is None:
            return [Told(change.seq, change.operation, self._bytes(entry, change)) for entry, change in matching]
        etag = await self._etag() if matching and self._etag is not None else None
        return [Told(change.seq, INVALIDATE, self._invalidation(change, etag)) for _, change in matching]

    def _bytes(self, entry: Entry, change: RowChanged) -> bytes:
        source = self._sources[change.relation.oid]
        known = entry.encoded.get(source.shape)
        if known is None:
            known = encoded(event_of(change, self._columns(change), source.key, self._database, self._look))
            self._log.keep(entry, source.shape, known)
        return known

    def _invalidation(self, change: RowChanged, etag: str | None) -> bytes:
        assert self.subscription.query is not None
        source, columns = self._sources[change.relation.oid], self._columns(change)
        event = event_of(change, columns, source.key, self._database, self._look)
        keys = None
        if self.subscription.wishes.changed_keys:
            keys = changed_keys_of(change, columns, source.key, is_plain=self._look.is_plain)
        return encoded(invalidation_of(event, self.subscription.query[0], etag, keys))
