"""A live result as its user holds it."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from tidewire.changes import Change, Row
from tidewire.description import Described, place_of, places_of
from tidewire.feed import Decoder, Feed
from tidewire.messages import Subscribe
from tidewire.retry import Retry

if TYPE_CHECKING:
    from tidewire.client import Live

Decoders: TypeAlias = Mapping[int | str, Decoder]


class Subscription:
    """Enter it, then iterate: an `Initial` first, then what changed. Values are text unless a decoder was named."""

    def __init__(
        self, live: "Live", request: Subscribe, key: Sequence[int | str] | None, decoders: Decoders, retry: Retry
    ) -> None:
        self._live, self._key, self._decoders = live, key, decoders
        self._feed = Feed(request, retry=retry)
        self._described = Described()

    async def __aenter__(self) -> "Subscription":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def open(self) -> None:
        """Subscribe and wait for the first result; what `async with` does."""
        request, retry = self._feed.request, self._feed.retry
        columns = await self._live.columns_of(request.query)
        self._described = Described(columns)
        key = None if self._key is None else places_of(self._key, columns)
        decoders = {place_of(column, columns): decoder for column, decoder in self._decoders.items()}
        self._feed = Feed(request, key=key, decoders=decoders, retry=retry)
        try:
            await self._live.open(self._feed)
            if key is None and not self._feed.key_told:
                # An older gateway, which does not say the key: PostgreSQL knows it in plain cases.
                self._feed.use_key(await self._live.key_of(columns))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unsubscribe; the iteration ends."""
        self._live.leave(self._feed)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The merged result after the last change that was given out.

        An updated row keeps its place and a new one comes last: sort where the order matters.
        """
        return self._feed.rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, as PostgreSQL gives them; empty if it could not describe the query."""
        return tuple(column.name for column in self._described.columns)

    @property
    def types(self) -> tuple[int, ...]:
        """The columns' types, as OIDs of pg_type."""
        return tuple(column.type for column in self._described.columns)

    @property
    def tables(self) -> int | None:
        """How many tables are watched for this result."""
        return self._feed.tables

    @property
    def lsn(self) -> str | None:
        """Where `rows` stand in the database's log, if the connection was made with lsn=True."""
        return self._feed.lsn

    @property
    def at_commit(self) -> bool:
        """Whether `rows` are a state that was committed: no further record of this LSN comes. Needs lsn=True."""
        return self._feed.at_commit

    def pause(self) -> None:
        """Nothing comes until `resume`; the next change after it carries the net of what was missed."""
        self._live.pause(self._feed)

    def resume(self) -> None:
        self._live.resume(self._feed)

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Change:
        while True:
            change = self._feed.next()
            if change is not None:
                return change
            if self._feed.closed:
                raise StopAsyncIteration
            if self._feed.wants_renewal:
                self._live.renew(self._feed)
            await self._live.news()

    async def next(self, timeout_s: float) -> Change | None:
        """The next change, or None if none comes in time or the subscription is closed."""
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(self, None)
        except TimeoutError:
            return None
