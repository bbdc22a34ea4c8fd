"""Registered queries, as PostgreSQL has them committed (P34)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.core.notify.meta import Meta
from services.gateway.errors import RegistrationsUnknown

APPLICATION_NAME = "tidewire gateway"
STATEMENT_TIMEOUT_MS = 5_000
# Sockets come in crowds.
CONNECTIONS = 4
_META = "SELECT r.gen, r.mode, r.audience, r.role FROM _tidewire.registered(%s) r"
_CHANNEL = "SELECT _tidewire.reactive_setting('notify_channel', 'pgr')"


class Registrations:
    """A few threads with a connection each."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="registrations")
        self._idle: list[psycopg.Connection] = []

    async def meta(self, query_id: str) -> Meta | None:
        """What is committed now; None if nothing is registered by this id. Raises RegistrationsUnknown."""
        row = await self._asked(_META, [query_id])
        return None if row is None else Meta(*row)

    async def channel(self) -> str:
        """The channel's name. Raises RegistrationsUnknown."""
        row = await self._asked(_CHANNEL, [])
        assert row is not None
        return str(row[0])

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._idle:
            connection.close()

    async def _asked(self, query: str, values: list[Any]) -> tuple[Any, ...] | None:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, query, values)

    def _ask(self, query: str, values: list[Any]) -> tuple[Any, ...] | None:
        """A connection that died while it was idle is replaced, once."""
        for attempt in (1, 2):
            connection = None
            try:
                connection = self._idle.pop() if self._idle and attempt == 1 else self._connected()
                row = connection.execute(query.encode(), values).fetchone()
                self._idle.append(connection)
                return row
            except (psycopg.Error, PostgresUnreachable, PostgresRefused) as error:
                if connection is not None:
                    connection.close()
                if attempt == 2:
                    raise RegistrationsUnknown(str(error)) from error
        raise AssertionError("the last attempt returns or raises")

    def _connected(self) -> psycopg.Connection:
        connection = connect(self._postgres, application_name=APPLICATION_NAME)
        connection.execute(f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}; SET search_path = pg_catalog")
        return connection
