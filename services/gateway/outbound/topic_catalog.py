"""Definitions of topics, and the mirror of what groups have acked, on a connection of the gateway's own."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson
import psycopg
from msgspec import Struct

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound import role_grounds

_OPTIONS = "-c search_path=pg_catalog -c statement_timeout=5000 -c lock_timeout=2000"
_FIND = """
SELECT t.topic_id, t.name, t.partitions, t.cleared_generation,
       ARRAY(SELECT DISTINCT r.table_oid::int8 FROM _tidewire.topic_routes r WHERE r.topic_id = t.topic_id)
FROM _tidewire.topics t WHERE %(name)s IN (t.name, t.alias, t.topic_id)
ORDER BY t.name = %(name)s DESC, t.alias = %(name)s DESC NULLS LAST LIMIT 1
"""
REMEMBERED_S = 0.5
MOST_REMEMBERED = 10_000
NOT_INSTALLED = "topics are not installed in this database: run `tidewire install`"

T = TypeVar("T")
Mirrored = tuple[str, str, int, int | None, int, int]


class TopicFacts(Struct, frozen=True):
    topic_id: str
    name: str
    partitions: int
    cleared_generation: int
    # The tables whose raw rows it carries.
    sources: tuple[int, ...]


class TopicCatalog:
    """Raises CursorsUnavailable where PostgreSQL does not answer."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="topic-catalog")
        self._mirror_thread = ThreadPoolExecutor(1, thread_name_prefix="topic-mirror")
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._known: OrderedDict[str, tuple[float, TopicFacts]] = OrderedDict()
        self._waiting: list[tuple[Mirrored, asyncio.Future[None]]] = []
        self._mirroring: asyncio.Task[None] | None = None

    async def find(self, name: str) -> TopicFacts | None:
        """By name, alias or id."""
        known = self._known.get(name)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        self._known.pop(name, None)
        if "\0" in name:
            return None
        row = await self._ask("questions", lambda connection: connection.execute(_FIND, {"name": name}).fetchone())
        if row is None:
            return None
        facts = TopicFacts(row[0], row[1], row[2], row[3], tuple(row[4]))
        self._known[name] = time.monotonic() + REMEMBERED_S, facts
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return facts

    async def may_read(self, role: str, tables: tuple[int, ...]) -> bool:
        """Whether this role may have the raw rows of all of them (decision 19)."""
        readable = await self._ask("questions", lambda connection: role_grounds.readable(connection, role, tables))
        return readable.keys() == set(tables)

    async def mirror(self, row: Mirrored) -> None:
        """Return when PostgreSQL has it; rows that come while it writes go together."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, done))
        if self._mirroring is None or self._mirroring.done():
            self._mirroring = asyncio.get_running_loop().create_task(self._mirror_all())
        await done

    def close(self) -> None:
        for thread in (self._thread, self._mirror_thread):
            thread.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections.values():
            connection.close()

    async def _mirror_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            newest: dict[tuple[str, str, int], Mirrored] = {}
            for row, _ in group:
                held = newest.get(row[:3])
                newest[row[:3]] = row if held is None or row[4:] >= held[4:] else held
            try:
                await self._ask("mirror", _mirroring(list(newest.values())))
            except CursorsUnavailable as error:
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for _, done in group:
                if not done.done():
                    done.set_result(None)

    async def _ask(self, which: str, question: Callable[[psycopg.Connection[Any]], T]) -> T:
        thread = self._mirror_thread if which == "mirror" else self._thread
        return await asyncio.get_running_loop().run_in_executor(thread, self._asked, which, question)

    def _asked(self, which: str, question: Callable[[psycopg.Connection[Any]], T]) -> T:
        for attempt in (1, 2):
            try:
                return question(self._connected(which))
            except psycopg.errors.UndefinedTable:
                raise CursorsUnavailable(NOT_INSTALLED) from None
            except psycopg.Error as error:
                connection = self._connections.pop(which, None)
                if connection is not None:
                    connection.close()
                if attempt == 2:
                    raise CursorsUnavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
        raise AssertionError("the second attempt returns or raises")

    def _connected(self, which: str) -> psycopg.Connection[Any]:
        held = self._connections.get(which)
        if held is None or held.closed:
            try:
                held = connect(self._postgres, application_name="tidewire gateway topics", options=_OPTIONS)
            except (PostgresUnreachable, PostgresRefused) as error:
                raise CursorsUnavailable(str(error)) from error
            self._connections[which] = held
        return held


def _mirroring(rows: list[Mirrored]) -> Callable[[psycopg.Connection[Any]], object]:
    words = orjson.dumps(rows).decode()
    return lambda connection: connection.execute("SELECT _tidewire.topic_mirror(%s)", [words])
