"""The two ways into one PostgreSQL, and what a program answers by each of them."""

import difflib
import os
import pprint
from collections.abc import Callable
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.fixtures.postgres import PostgresServer
from tests.fixtures.waiting import wait_until

DATABASE = "clients"
RUNNING = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()"


class Door(Struct, frozen=True):
    """Where a program shall connect: to PostgreSQL itself, or to the gateway before it."""

    name: str
    user: str
    password: str
    port: int
    database: str = DATABASE
    host: str = "127.0.0.1"
    # The file of the authority that must have signed the server's certificate; without one there is no TLS.
    authority: str = ""

    @property
    def dsn(self) -> str:
        by_tls = f"?sslmode=verify-full&sslrootcert={self.authority}" if self.authority else ""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}{by_tls}"

    @property
    def environ(self) -> dict[str, str]:
        """libpq's variables, over the environment of the test run without any of them."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGPASSWORD": self.password,
            "PGDATABASE": self.database,
            "PGSSLMODE": "verify-full" if self.authority else "disable",
            **({"PGSSLROOTCERT": self.authority, "NODE_EXTRA_CA_CERTS": self.authority} if self.authority else {}),
        }


class Doors:
    """PostgreSQL is the oracle: a program that runs by both doors must get the same answers to the letter."""

    def __init__(self, server: PostgresServer, gateway_port: int, authority: str = "") -> None:
        """With an authority, the gateway's door is one of TLS."""
        self._server = server
        parts = conninfo_to_dict(server.dsn)
        user, password = str(parts["user"]), str(parts["password"])
        self.direct = Door("direct", user, password, server.port)
        self.proxied = Door("proxied", user, password, gateway_port, authority=authority)

    def same(self, program: Callable[[Door], Any], *, fresh: bool = True) -> Any:
        """Run the program by each door, each time in a fresh database of one name; what both answered.

        Not `fresh`: in the database `postgres`, for a program that leaves nothing behind.
        """
        if fresh:
            direct, proxied = (self.alone(door, program) for door in (self.direct, self.proxied))
        else:
            direct, proxied = (program(replace(door, database="postgres")) for door in (self.direct, self.proxied))
        assert proxied == direct, _difference(direct, proxied)
        return direct

    def alone(self, door: Door, program: Callable[[Door], Any]) -> Any:
        """Run the program by one door."""
        self._server.drop_database(door.database)
        self._server.create_database(door.database)
        try:
            return program(door)
        finally:
            self._forget_prepared(door.database)

    def _forget_prepared(self, database: str) -> None:
        """A transaction that a failed program left prepared would keep its database from being dropped."""
        with psycopg.connect(self._server.dsn_of(database), autocommit=True) as connection:
            left = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
            for [gid] in left.fetchall():
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))

    def wait_until_runs(self, marker: str, within_s: float = 20.0) -> None:
        """Return when some session executes a statement that contains the marker."""
        self._wait(lambda running: running, f"a session runs {marker!r}", marker, within_s)

    def wait_until_ended(self, marker: str, within_s: float = 20.0) -> None:
        """Return when no session executes a statement that contains the marker."""
        self._wait(lambda running: not running, f"no session runs {marker!r} any more", marker, within_s)

    def _wait(self, holds: Callable[[bool], bool], what: str, marker: str, within_s: float) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:

            def is_running() -> bool:
                return connection.execute(RUNNING, [f"%{marker}%"]).fetchone() is not None

            wait_until(lambda: holds(is_running()), what, within_s)


def _difference(direct: Any, proxied: Any) -> str:
    lines = difflib.unified_diff(_lines(direct), _lines(proxied), "direct", "proxied", lineterm="", n=2)
    return "\n" + "\n".join(line[:300] for line, _ in zip(lines, range(80), strict=False))


def _lines(answer: Any) -> list[str]:
    return (answer if isinstance(answer, str) else pprint.pformat(answer, width=160)).replace("\\n", "\n").splitlines()
