"""What roles may do, asked on a connection of our own, which no client can bend."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
from msgspec import Struct

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.core.identity_question import TEMPORARIES_SEEN
from services.gateway.core.principal import Backend
from services.gateway.errors import RefusalCode, SubscribeRefused

APPLICATION_NAME = "tidewire gateway"
REMEMBERED_S = 5.0
REMEMBERED = 10_000
STATEMENT_TIMEOUT_MS = 5_000
UNKNOWN = "Execution error: PostgreSQL does not tell what this role may do: subscribe again"
# Which other roles it can become; SET is a right of its own since PostgreSQL 16.
_STANDING = """
SELECT r.rolsuper, EXISTS (
    SELECT FROM pg_catalog.pg_roles o WHERE o.oid <> r.oid AND pg_catalog.pg_has_role(r.oid, o.oid, %s)
) FROM pg_catalog.pg_roles r WHERE r.rolname = %s
"""
_MAY_BE = """
SELECT pg_catalog.pg_has_role(l.oid, r.oid, %s), r.rolsuper
FROM pg_catalog.pg_roles l, pg_catalog.pg_roles r WHERE l.rolname = %s AND r.rolname = %s
"""
# What a transaction that is under way has made nobody else sees, but for the locks that it holds on it: whoever makes a
# relation holds one on its schema.
_TEMPORARIES = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_stat_activity a
    WHERE a.pid = %(pid)s AND a.usename = %(user)s AND a.datname = pg_catalog.current_database()
) AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_locks l
    LEFT JOIN pg_catalog.pg_class c ON l.locktype = 'relation' AND c.oid = l.relation
    LEFT JOIN pg_catalog.pg_namespace n ON l.locktype = 'object' AND n.oid = l.objid
    WHERE l.pid = %(pid)s
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
      AND (c.relpersistence = 't' OR l.locktype = 'object' AND l.classid = 'pg_catalog.pg_namespace'::regclass
           AND (n.oid IS NULL OR pg_catalog.starts_with(n.nspname, 'pg_temp_')))
), ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c WHERE c.relpersistence = 't' LIMIT %(most)s)
"""

T = TypeVar("T")
Ask = Callable[[psycopg.Connection, str], T]


class Standing(Struct, frozen=True):
    """Of a login."""

    is_superuser: bool
    # Whether a session of it can have another role than its login.
    may_change: bool


class Roles:
    """A connection and a thread for it; answers are remembered for a few seconds."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: psycopg.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="roles")
        self._known: OrderedDict[tuple[str, ...], tuple[float, object]] = OrderedDict()

    async def standing(self, login: str) -> Standing:
        """Raises SubscribeRefused if that is not known: no answer means no subscription."""
        return await self._remembered(("standing", login), lambda own, right: _standing(own, right, login))

    async def may_be(self, login: str, role: str) -> Standing | None:
        """What the role is, if the login may be it now."""
        return await self._remembered(("be", login, role), lambda own, right: _be(own, right, login, role))

    async def temporaries(self, backend: Backend) -> frozenset[str] | None:
        """Temporary relations of all sessions; None if this one has made or touched some under way, or is unknown."""
        return await self._asked(lambda own, _: _temporaries(own, backend))

    def close(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    async def _remembered(self, key: tuple[str, ...], ask: Ask[T]) -> T:
        now_s = time.monotonic()
        if key in self._known and self._known[key][0] > now_s:
            return self._known[key][1]  # type: ignore[return-value]
        answer = await self._asked(ask)
        self._known[key] = (now_s + REMEMBERED_S, answer)
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return answer

    async def _asked(self, ask: Ask[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, ask)

    def _ask(self, ask: Ask[T]) -> T:
        """A connection that died while it was idle is replaced, once."""
        for attempt in (1, 2):
            try:
                connection = self._connected()
                return ask(connection, "SET" if connection.info.server_version >= 160_000 else "MEMBER")
            except (psycopg.Error, PostgresUnreachable, PostgresRefused) as error:
                if self._connection is not None:
                    self._connection.close()
                if attempt == 2:
                    raise SubscribeRefused(RefusalCode.UNAVAILABLE, UNKNOWN) from error
        raise AssertionError

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._postgres, application_name=APPLICATION_NAME)
            self._connection.execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}; SET search_path = pg_catalog")
        return self._connection


def _standing(connection: psycopg.Connection, right: str, login: str) -> Standing:
    row = connection.execute(_STANDING, [right, login]).fetchone()
    if row is None:
        raise SubscribeRefused(RefusalCode.PERMISSION_DENIED, f"Execution error: role '{login}' does not exist")
    return Standing(is_superuser=row[0], may_change=row[0] or row[1])


def _be(connection: psycopg.Connection, right: str, login: str, role: str) -> Standing | None:
    row = connection.execute(_MAY_BE, [right, login, role]).fetchone()
    return Standing(is_superuser=row[1], may_change=False) if row is not None and row[0] else None


def _temporaries(connection: psycopg.Connection, backend: Backend) -> frozenset[str] | None:
    asked = {"pid": backend.pid, "user": backend.user, "most": TEMPORARIES_SEEN + 1}
    row = connection.execute(_TEMPORARIES, asked).fetchone()
    assert row is not None
    return frozenset(row[1]) if row[0] else None
