"""Passwords, verified by PostgreSQL itself: a connection is opened with them and closed again.

So password encryption, NOLOGIN, VALID UNTIL, CONNECT and pg_hba.conf hold as they do for any client. A connection for
which PostgreSQL asked for no password proves nothing: to PostgreSQL every caller comes from the gateway's address.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg.conninfo import conninfo_to_dict

from services.chassis.postgres import OUTAGES, Postgres, PostgresRefused, failure
from services.gateway.errors import LoginRefused, LoginUnknown

# What the DSN says about the way to the server. Nothing of who the gateway is: neither its user nor its password files,
# client certificate, Kerberos ticket or start-up options.
ROUTE = (
    "host",
    "hostaddr",
    "port",
    "sslmode",
    "sslrootcert",
    "sslcrl",
    "sslcrldir",
    "sslsni",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "channel_binding",
    "target_session_attrs",
    "load_balance_hosts",
)
CONNECT_S = 10
# Answers that come after the password was asked for and still say nothing about it.
BUSY = (*OUTAGES, "too many connections", "remaining connection slots", "too many clients")


class Logins:
    """Checks user and password on threads of its own; a bounded number at a time."""

    def __init__(self, postgres: Postgres, *, threads: int = 4, waiting: int = 32) -> None:
        self._postgres = postgres
        self._route = _route(postgres.dsn)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="logins")
        self._room = threads + waiting

    async def verify(self, user: str, password: str) -> str:
        """The login as PostgreSQL names it. Raises LoginRefused, or LoginUnknown if PostgreSQL cannot be asked."""
        if not user or not password or "\0" in user + password:
            raise LoginRefused("user or password is empty or holds a NUL")
        if self._room <= 0:
            raise LoginUnknown("too many log-ins are being checked")
        self._room -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, user, password)
        finally:
            self._room += 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verify(self, user: str, password: str) -> str:
        try:
            connection = psycopg.connect("", user=user, password=password, autocommit=True, **self._route)  # type: ignore[arg-type]
        except psycopg.OperationalError as error:
            raise self._reason(error) from None  # libpq's words may quote what the caller sent
        with connection:
            if not connection.pgconn.used_password:
                raise LoginRefused("PostgreSQL asked for no password")
            reported = connection.pgconn.parameter_status(b"session_authorization")
            if not reported:
                raise LoginUnknown("PostgreSQL did not report the session's user")
            return reported.decode(errors="replace")

    def _reason(self, error: psycopg.OperationalError) -> LoginRefused | LoginUnknown:
        words = str(error)
        asked = error.pgconn is not None and error.pgconn.used_password
        if any(phrase in words for phrase in BUSY):
            return LoginUnknown("PostgreSQL has no connection to spare or is not up")
        if "authentication method requirement" in words:
            return LoginRefused("PostgreSQL asked for no password")
        if asked or isinstance(failure(self._postgres, words), PostgresRefused):
            return LoginRefused("PostgreSQL refused the log-in")
        return LoginUnknown("PostgreSQL does not answer")


def _route(dsn: str) -> dict[str, str | int]:
    given = conninfo_to_dict(dsn)
    defaults = {
        option.keyword.decode(): option.val.decode() for option in psycopg.pq.Conninfo.get_defaults() if option.val
    }
    # libpq's default database is the user's name: it must not follow the caller.
    database = given.get("dbname") or defaults.get("dbname") or given.get("user") or defaults.get("user") or "postgres"
    route = {key: value for key in ROUTE if (value := given.get(key)) is not None}
    return {
        **route,
        "dbname": database,
        "application_name": "tidewire gateway log-in",
        "connect_timeout": CONNECT_S,
        "require_auth": "password,md5,scram-sha-256",
        "sslcertmode": "disable",
        "gssencmode": "disable",
        "options": "-c search_path=pg_catalog -c statement_timeout=5000",
    }
