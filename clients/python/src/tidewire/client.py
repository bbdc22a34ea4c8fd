"""The asynchronous client: one connection that comes back by itself, and the subscriptions on it.

One task reads the socket, and only while somebody waits for something. A consumer that is slow therefore slows the
reading, the gateway sees a full socket and keeps only the net change: that is its trade, and it has the memory for it.
What comes for one subscription while another is waited for is held, and merged when it grows (`feed.HELD_BYTES`).
"""

import asyncio
import itertools
import os
from collections.abc import Mapping, Sequence
from types import TracebackType

from tidewire import ordinary
from tidewire.address import Address, parse
from tidewire.conversation import IDLE, LSN, Conversation, Exchange
from tidewire.description import Described, key_places, key_sql, table_of
from tidewire.dial import Connection, dial
from tidewire.errors import ConnectionFailed
from tidewire.feed import Feed
from tidewire.messages import Partial, Subscribe, encode
from tidewire.parameters import Parameter, to_text
from tidewire.retry import Retry
from tidewire.subscription import Decoders, Subscription

TextRow = tuple[str | None, ...]


async def connect(
    dsn: str = "",
    *,
    lsn: bool = False,
    retry: Retry | None = None,
    settings: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> "Live":
    """Connect to a gateway: `async with await tidewire.connect("postgresql://…") as live: …`.

    `lsn` lets every change carry its place in the database's log. `settings` are PostgreSQL's, for this session
    (TimeZone, search_path, …): they are part of what a subscribed query means.
    """
    asked = {LSN: "on"} if lsn else {}
    return await Live.at(parse(dsn, environ, {**(settings or {}), **asked}), retry or Retry())


class Live:
    """A connection to a gateway; it is made anew when it breaks, and its subscriptions with it."""

    def __init__(self, address: Address, retry: Retry, connection: Connection) -> None:
        self._address, self._retry = address, retry
        self._connection: Connection | None = connection
        self._conversation = Conversation()
        self._feeds: set[Feed] = set()
        self._one_exchange = asyncio.Lock()
        # How many wait for news, and the news.
        self._waiting, self._demand, self._news = 0, asyncio.Event(), asyncio.Event()
        self._trouble: str | None = None
        self._over: Exception | None = None
        self._task = asyncio.create_task(self._run(connection), name="tidewire")

    @classmethod
    async def at(cls, address: Address, retry: Retry) -> "Live":
        return cls(address, retry, await dial(address))

    async def __aenter__(self) -> "Live":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def trouble(self) -> str | None:
        """Why there is no connection just now; None while there is one."""
        return self._trouble

    def subscribe(
        self,
        sql: str,
        parameters: Sequence[Parameter] = (),
        *,
        filter: str | None = None,
        partial: bool | Partial | None = None,
        key: Sequence[int | str] | None = None,
        decode: Decoders | None = None,
    ) -> Subscription:
        """A live result, to be entered: `async with live.subscribe("SELECT …", [7]) as orders: async for change in …`.

        filter   what may stand after WHERE, over the columns of the result
        partial  whether updates may carry only the values that changed; None leaves it to the gateway's settings
        key      columns (names, or places from 0) that tell the rows apart: only needed where a `Renewed` asks for it
        decode   what makes of a column's text (by name or place) what the rows shall hold: {"id": int}
        """
        if isinstance(parameters, str | bytes):
            raise TypeError("parameters are a list, one value for each of $1 … $n: write [value]")
        wanted = Partial(enabled=partial) if isinstance(partial, bool) else partial
        request = Subscribe(sql, tuple(map(to_text, parameters)), filter or None, wanted)
        encode(request)  # what cannot be sent is refused here, and not where it would be sent
        return Subscription(self, request, key, decode or {}, self._retry)

    async def query(self, sql: str) -> list[TextRow]:
        """Run ordinary SQL on the same connection; the rows as text, of several statements the last that has any.

        A connection that was lost takes its open transaction and its SET with it, as everywhere in PostgreSQL.
        """
        exchange = await self.exchange(ordinary.query(sql))
        if exchange.error is not None:
            raise exchange.error
        return [
            tuple(None if value is None else value.decode("utf-8", "surrogateescape") for value in row)
            for row in exchange.rows
        ]

    async def close(self) -> None:
        """Leave; the gateway forgets the subscriptions of this connection."""
        self._over = self._over or ConnectionFailed("this connection was closed by its user")
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._connection is not None:  # the task was cancelled before it had begun
            connection, self._connection = self._connection, None
            await connection.close()
        self._tell()

    # What a Subscription needs.

    async def open(self, feed: Feed) -> None:
        """Subscribe and wait for the first result."""
        self._feeds.add(feed)
        self._conversation.subscribe(feed)
        self._flush()
        while not feed.begun:
            if feed.error is not None:
                raise feed.error
            await self.news()

    def leave(self, feed: Feed) -> None:
        feed.closed = True
        self._feeds.discard(feed)
        self._conversation.leave(feed)
        self._flush()
        self._tell()

    def pause(self, feed: Feed) -> None:
        feed.paused = True
        self._conversation.pause(feed)
        self._flush()

    def resume(self, feed: Feed) -> None:
        feed.paused = False
        self._conversation.resume(feed)
        self._flush()
        self._tell()

    def renew(self, feed: Feed) -> None:
        self._conversation.renew(feed)
        self._flush()

    async def news(self) -> None:
        """Wait until something has come; while anybody waits here, the socket is read."""
        if self._over is not None:
            raise self._over
        self._waiting += 1
        self._demand.set()
        try:
            await self._news.wait()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._demand.clear()

    async def describe(self, sql: str) -> Described:
        """The columns and key of a query; none if it cannot be described: the gateway will then say better why."""
        columns = await self.columns_of(sql)
        return Described(columns, await self.key_of(columns))

    async def columns_of(self, sql: str) -> tuple[ordinary.Column, ...]:
        """The columns of a query, by PostgreSQL; none if it cannot be described."""
        return (await self.exchange(ordinary.describe(sql), beside=True)).columns

    async def key_of(self, columns: Sequence[ordinary.Column]) -> tuple[int, ...] | None:
        """The primary key in these columns, by PostgreSQL, where it is plain."""
        table = table_of(columns)
        if table is None:
            return None
        answer = await self.exchange(ordinary.query(key_sql(table)), beside=True)
        return key_places(columns, answer.rows[0][0] if answer.rows else None)

    async def exchange(self, request: bytes, *, beside: bool = False) -> Exchange:
        """Send ordinary messages that end in ReadyForQuery, and wait for it.

        `beside` is for our own questions: a transaction of the user's would be aborted by one that fails, and would
        hold its locks, so that they take a connection of their own if one is open.
        """
        exchange = Exchange(request)
        async with self._one_exchange:
            while self._connection is None or self._conversation.busy:
                await self.news()
            if beside and self._conversation.transaction != IDLE:
                return await self._aside(exchange)
            self._conversation.ask(exchange)
            self._flush()
            while not exchange.done:
                await self.news()
        return exchange

    async def _aside(self, exchange: Exchange) -> Exchange:
        connection, conversation = await dial(self._address), Conversation()
        try:
            conversation.ask(exchange)
            connection.write(conversation.outgoing())
            while not exchange.done:
                conversation.receive(await connection.read())
        finally:
            await connection.close()
        return exchange

    async def _run(self, connection: Connection) -> None:
        try:
            while True:
                try:
                    await self._converse(connection)
                except ConnectionFailed as lost:
                    self._connection, self._trouble = None, str(lost)
                    self._conversation.end(str(lost))
                    self._tell()
                finally:
                    await connection.close()
                connection = await self._dial_again()
        except Exception as error:  # whatever it is, those who wait are told, and nobody waits for ever
            self._over = error
        finally:
            self._connection = None
            self._conversation.end("the connection has ended")
            self._tell()

    async def _converse(self, connection: Connection) -> None:
        self._flush()
        while True:
            await self._demand.wait()
            self._conversation.receive(await connection.read())
            for feed, delay_s in self._conversation.to_retry():
                asyncio.get_running_loop().call_later(delay_s, self._subscribe_again, self._conversation, feed)
            self._flush()
            self._tell()

    async def _dial_again(self) -> Connection:
        for attempt in itertools.count():
            await asyncio.sleep(self._retry.delay_s(attempt))
            try:
                connection = await dial(self._address)
            except ConnectionFailed as failure:
                self._trouble = str(failure)
                if not failure.retry or attempt + 1 == self._retry.connects:
                    raise
                self._tell()
            else:
                break
        self._connection, self._conversation, self._trouble = connection, Conversation(), None
        for feed in self._feeds:
            if feed.error is None:
                self._conversation.subscribe(feed)
        self._tell()
        return connection

    def _subscribe_again(self, conversation: Conversation, feed: Feed) -> None:
        if conversation is self._conversation and not feed.closed and self._over is None:
            conversation.subscribe(feed)
            self._flush()

    def _flush(self) -> None:
        if self._connection is not None:
            self._connection.write(self._conversation.outgoing())

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()
