"""What PostgreSQL says about roles, asked on a connection of the gateway's own and remembered for some seconds."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import psycopg

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.core.http_identity import RoleFacts
from services.gateway.errors import LoginUnknown

MOST_ROLES = 10_000
FACTS = """
SELECT r.rolname, r.rolcanlogin, r.rolsuper, extract(epoch FROM r.rolvaliduntil)::float8,
       ARRAY(SELECT m.rolname::text FROM pg_catalog.pg_roles m
             WHERE m.rolname = ANY (%s) AND pg_catalog.pg_has_role(r.oid, m.oid, 'MEMBER'))
FROM pg_catalog.pg_roles r WHERE r.rolname = %s
"""


class RoleCatalog:
    """Role facts by name; `groups` are the database roles whose members have a service role."""

    def __init__(
        self,
        postgres: Postgres,
        groups: Mapping[str, str],
        *,
        remember_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._postgres, self._groups = postgres, dict(groups)
        self._remember_s, self._clock = remember_s, clock
        self._known: OrderedDict[str, tuple[float, RoleFacts | None]] = OrderedDict()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="roles")
        self._connection: psycopg.Connection | None = None

    async def facts(self, name: str) -> RoleFacts | None:
        """None: there is no such role. Raises LoginUnknown if PostgreSQL does not answer."""
        known = self._known.get(name)
        if known is not None and known[0] > self._clock():
            return known[1]
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, name)
        self._known[name] = self._clock() + self._remember_s, found
        self._known.move_to_end(name)
        while len(self._known) > MOST_ROLES:
            self._known.popitem(last=False)
        return found

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()

    def _ask(self, name: str) -> RoleFacts | None:
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            return None  # no role is called so, and it could not even be asked for
        try:
            return self._asked(name)
        except psycopg.Error:
            self._drop()  # it died while it was idle: once more on a new one
        try:
            return self._asked(name)
        except psycopg.Error as error:
            self._drop()
            raise LoginUnknown(f"PostgreSQL did not answer about a role ({type(error).__name__})") from None

    def _asked(self, name: str) -> RoleFacts | None:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = connect(
                    self._postgres,
                    application_name="tidewire gateway roles",
                    options="-c search_path=pg_catalog -c statement_timeout=5000",
                )
            except (PostgresUnreachable, PostgresRefused) as error:
                raise LoginUnknown(str(error)) from None
        row = self._connection.execute(FACTS, (list(self._groups), name)).fetchone()
        if row is None:
            return None
        role, can_login, is_superuser, until, groups = row
        return RoleFacts(
            name=role,
            can_login=can_login,
            is_superuser=is_superuser,
            valid_until=None if until is None or (math.isinf(until) and until > 0) else until,
            service_roles=frozenset(self._groups[group] for group in groups),
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
