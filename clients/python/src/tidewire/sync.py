"""The same client for programs without asyncio: its loop runs in a thread of its own, and every call waits for it."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from tidewire.address import Address, parse
from tidewire.changes import Change, Row
from tidewire.client import Live, TextRow
from tidewire.conversation import LSN
from tidewire.messages import Partial
from tidewire.parameters import Parameter
from tidewire.retry import Retry
from tidewire.subscription import Decoders, Subscription

T = TypeVar("T")


def connect_sync(
    dsn: str = "",
    *,
    lsn: bool = False,
    retry: Retry | None = None,
    settings: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> "LiveSync":
    """Connect to a gateway: `with tidewire.connect_sync("postgresql://…") as live: …`; arguments as for `connect`."""
    asked = {LSN: "on"} if lsn else {}
    return LiveSync(parse(dsn, environ, {**(settings or {}), **asked}), retry or Retry())


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidewire", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait; an interrupt here cancels it there."""
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result()
        except BaseException:
            done.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class LiveSync:
    """As `Live`, blocking; one thread at a time may use a subscription."""

    def __init__(self, address: Address, retry: Retry) -> None:
        self._loop = Loop()
        try:
            self._live = self._loop.run(Live.at(address, retry))
        except BaseException:
            self._loop.stop()
            raise
        self._closed = False

    def __enter__(self) -> "LiveSync":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def trouble(self) -> str | None:
        return self._live.trouble

    def subscribe(
        self,
        sql: str,
        parameters: Sequence[Parameter] = (),
        *,
        filter: str | None = None,
        partial: bool | Partial | None = None,
        key: Sequence[int | str] | None = None,
        decode: Decoders | None = None,
    ) -> "SubscriptionSync":
        made = self._live.subscribe(sql, parameters, filter=filter, partial=partial, key=key, decode=decode)
        return SubscriptionSync(self._loop, made)

    def query(self, sql: str) -> list[TextRow]:
        return self._loop.run(self._live.query(sql))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.run(self._live.close())
            self._loop.stop()


class SubscriptionSync:
    """As `Subscription`, blocking: `for change in orders: …`, or `orders.next(timeout_s)`."""

    def __init__(self, loop: Loop, subscription: Subscription) -> None:
        self._loop, self._subscription = loop, subscription

    def __enter__(self) -> "SubscriptionSync":
        self._loop.run(self._subscription.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> "SubscriptionSync":
        return self

    def __next__(self) -> Change:
        change = self._loop.run(self._next())
        if change is None:
            raise StopIteration
        return change

    def next(self, timeout_s: float) -> Change | None:
        """The next change, or None if none comes in time or the subscription is closed."""
        return self._loop.run(self._subscription.next(timeout_s))

    @property
    def rows(self) -> tuple[Row, ...]:
        return self._subscription.rows

    @property
    def columns(self) -> tuple[str, ...]:
        return self._subscription.columns

    @property
    def types(self) -> tuple[int, ...]:
        return self._subscription.types

    @property
    def tables(self) -> int | None:
        return self._subscription.tables

    @property
    def lsn(self) -> str | None:
        return self._subscription.lsn

    @property
    def at_commit(self) -> bool:
        return self._subscription.at_commit

    def pause(self) -> None:
        self._loop.run(_soon(self._subscription.pause))

    def resume(self) -> None:
        self._loop.run(_soon(self._subscription.resume))

    def close(self) -> None:
        self._loop.run(_soon(self._subscription.close))

    async def _next(self) -> Change | None:
        return await anext(self._subscription, None)


async def _soon(call: Any) -> None:
    call()
