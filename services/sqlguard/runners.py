"""Connections on which subscribers' SQL runs: of the runner, a login without rights, each bound to one role.

Beside each stands a connection of the service's own, which never sees a subscriber's text as SQL: it admits the runner
to the role, reads the catalog, and ends a backend that does not stop.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
from msgspec import Struct
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from services.chassis import own_schema
from services.chassis.postgres import Postgres, PostgresRefused, connect, failure
from services.sqlguard.entrance_install import Isolation, install, login_of
from services.sqlguard.refusal import Refused

# How many connections may be kept for the next query of the same role.
MOST_IDLE = 16
# For our own statements: their names must not be looked for in anybody's schemas, and to compile or to plan what reads
# a few rows of the catalog takes longer than to run it.
_OPTIONS = "-c search_path=pg_catalog -c jit=off"
# Whoever holds a lock on a table or a view must not hold up a thread of ours for longer.
_OWN_OPTIONS = _OPTIONS + " -c plan_cache_mode=force_generic_plan -c statement_timeout=20000 -c lock_timeout=2000"
_MAY_CREATE = """
SELECT has_database_privilege(%(role)s, current_database(), 'CREATE') OR EXISTS (
    SELECT FROM pg_namespace n WHERE has_schema_privilege(%(role)s, n.oid, 'CREATE') AND n.nspname !~ '^pg_')
"""
_MAY_BE = (
    "SELECT pg_has_role(%(member)s, %(role)s, %(privilege)s), r.rolsuper FROM pg_roles r WHERE r.rolname = %(role)s"
)


class Subscriber(Struct, frozen=True):
    """Whose rights bind: the role, and the login that must be allowed to be it."""

    login: str
    role: str


class Runner:
    """A connection bound to a role, and the service's own beside it; used by one thread at a time."""

    def __init__(self, connection: psycopg.Connection, service: psycopg.Connection, isolation: Isolation) -> None:
        self.connection, self.service, self.isolation = connection, service, isolation

    def terminate(self) -> None:
        """End the backend: a query can catch its own cancellation, but not this."""
        try:
            self.service.execute("SELECT pg_terminate_backend(%s)", [self.connection.info.backend_pid])
        except psycopg.Error:
            # PostgreSQL cannot be told, so the backend finds its client gone; whoever waits for it is freed.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.connection.pgconn.socket)) as ours:
                ours.shutdown(socket.SHUT_RDWR)


class _Idle(Struct, frozen=True):
    since_s: float
    connection: psycopg.Connection
    # Whose it is; None for one of the service's own.
    subscriber: Subscriber | None = None


class Runners:
    """A pool of them, by subscriber; any thread may borrow."""

    def __init__(self, postgres: Postgres, *, application_name: str) -> None:
        self._postgres, self._name = postgres, application_name
        self._idle: list[_Idle] = []
        self._guard = threading.Lock()
        self._isolation: Isolation | None = None
        self._login: tuple[str, str] | None = None

    @contextlib.contextmanager
    def borrowed(self, subscriber: Subscriber) -> Iterator[Runner]:
        """A runner that may be this role, verified now; Refused for the role, or why PostgreSQL is not reached."""
        with self.service() as service:
            runner = self._taken(subscriber, service)
            try:
                self._admit(runner, subscriber)
                yield runner
            finally:
                self._give_back(subscriber, runner.connection)

    @contextlib.contextmanager
    def service(self) -> Iterator[psycopg.Connection]:
        """A connection of the service's own, for statements that are ours."""
        connection = self._take_idle(None) or self._own(_OWN_OPTIONS)
        try:
            yield connection
        finally:
            self._keep(_Idle(time.monotonic(), connection))

    def close(self) -> None:
        self.close_stale(0.0)

    def close_stale(self, idle_s: float) -> None:
        """Close the connections that nobody has used for so long."""
        oldest_s = time.monotonic() - idle_s
        with self._guard:
            stale = [one for one in self._idle if one.since_s <= oldest_s]
            self._idle = [one for one in self._idle if one.since_s > oldest_s]
        for one in stale:
            one.connection.close()

    def _take_idle(self, subscriber: Subscriber | None) -> psycopg.Connection | None:
        """The one that this subscriber used last; one that died while it was idle is passed over."""
        while True:
            with self._guard:
                found = next((one for one in reversed(self._idle) if one.subscriber == subscriber), None)
                if found is None:
                    return None
                self._idle.remove(found)
            if _answers(found.connection):
                return found.connection
            found.connection.close()

    def _keep(self, idle: _Idle) -> None:
        if not _is_idle(idle.connection):
            idle.connection.close()
            return
        with self._guard:
            self._idle.append(idle)
            leaving, self._idle = self._idle[:-MOST_IDLE], self._idle[-MOST_IDLE:]
        for old in leaving:
            old.connection.close()

    def _taken(self, subscriber: Subscriber, service: psycopg.Connection) -> Runner:
        try:
            with self._guard:
                isolation = self._isolation = self._isolation or install(service)
        except psycopg.Error as error:
            raise failure(self._postgres, str(error)) from error
        connection = self._take_idle(subscriber) or self._opened(service, isolation)
        return Runner(connection, service, isolation)

    def _give_back(self, subscriber: Subscriber, connection: psycopg.Connection) -> None:
        """Without whatever a query has left in the session."""
        with contextlib.suppress(psycopg.Error):
            connection.rollback()
            connection.execute("DISCARD ALL")
        self._keep(_Idle(time.monotonic(), connection, subscriber))

    def _opened(self, service: psycopg.Connection, isolation: Isolation) -> psycopg.Connection:
        if isolation is Isolation.SET_ROLE:
            connection = self._own(_OPTIONS)
        elif self._postgres.runner_dsn:
            connection = self._connected(self._postgres.runner_dsn)
        else:
            connection = self._logged_in(service)
        # DISCARD ALL takes prepared statements away that psycopg would go on using.
        connection.prepare_threshold = None
        return connection

    def _logged_in(self, service: psycopg.Connection) -> psycopg.Connection:
        for is_known_wrong in (False, True):
            with self._guard:
                if self._login is None or is_known_wrong:
                    # After a crash of PostgreSQL another process may have given the runner a new password.
                    self._login = login_of(self._postgres, service)
                user, password = self._login
            try:
                return self._connected(make_conninfo(self._postgres.dsn, user=user, password=password))
            except PostgresRefused:
                if is_known_wrong:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _own(self, options: str) -> psycopg.Connection:
        return connect(self._postgres, application_name=self._name, client_encoding="UTF8", options=options)

    def _connected(self, dsn: str) -> psycopg.Connection:
        return connect(Postgres(dsn=dsn), application_name=self._name, client_encoding="UTF8")

    def _admit(self, runner: Runner, subscriber: Subscriber) -> None:
        superusers = self._postgres.superusers_subscribe
        try:
            if runner.isolation is Isolation.ENTRANCE:
                own_schema.exists(runner.service)
                pid = runner.connection.info.backend_pid
                runner.service.execute(
                    "SELECT _tidewire.admit(%s, %s, %s, %s)", [pid, subscriber.login, subscriber.role, superusers]
                )
            else:
                self._admit_weakly(runner.service, subscriber)
        except psycopg.Error as error:
            if error.sqlstate in ("42704", "42501"):
                raise Refused(error.sqlstate, error.diag.message_primary or str(error)) from error
            raise failure(self._postgres, str(error)) from error

    def _admit_weakly(self, service: psycopg.Connection, subscriber: Subscriber) -> None:
        privilege = "SET" if service.info.server_version >= 160000 else "MEMBER"
        asked = {"member": subscriber.login, "role": subscriber.role, "privilege": privilege}
        found = service.execute(_MAY_BE, asked).fetchone()
        if found is None:
            raise Refused("42704", f'role "{subscriber.role}" does not exist')
        if subscriber.login != subscriber.role and not found[0]:
            raise Refused("42501", f'permission denied to set role "{subscriber.role}"')
        if found[1] and not self._postgres.superusers_subscribe:
            raise Refused("42501", f'role "{subscriber.role}" is a superuser, who may not subscribe here')
        if self._postgres.weaker_isolation:
            return
        row = service.execute(_MAY_CREATE, asked).fetchone()
        if row is not None and row[0]:
            raise Refused(
                "42501",
                f'role "{subscriber.role}" may create objects, and no superuser has installed Tidewire here: let '
                "a superuser do that (docs/security.md), or allow TIDEWIRE_POSTGRES_WEAKER_ISOLATION",
            )


def _answers(connection: psycopg.Connection) -> bool:
    """Whether it is alive: one that died while idle must not be taken for an answer about a query."""
    try:
        connection.execute("SELECT")
    except psycopg.Error:
        return False
    return True


def _is_idle(connection: psycopg.Connection) -> bool:
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
