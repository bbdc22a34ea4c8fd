"""Whether PostgreSQL would run a query for this client, asked on a connection of our own."""

import re
from threading import Lock

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.errors import error_from_result

from proto.pgwire.live import Subscribe
from services.chassis import barrier
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.core.identity import Identity
from services.gateway.core.statement import ONLY_SELECT, bare, refuse_unless_condition, refuse_unless_select
from services.gateway.errors import SubscribeRefused

APPLICATION_NAME = "tidewire gateway"
SYNTAX_ERROR = "42601"
_RELATION = re.compile(r'relation "(?P<name>.+)" does not exist')
_DENIED = re.compile(r"permission denied for (?:table|view|relation) (?P<name>.+)")


class Checked(Struct, frozen=True):
    """The query is good; its first result must be at or past the barrier."""

    tables: int
    barrier_id: str


class Validation:
    """One connection, used by one thread at a time; a failing check never touches the client's transaction."""

    def __init__(self, postgres: Postgres, *, statement_timeout_ms: int) -> None:
        self._postgres, self._timeout_ms = postgres, statement_timeout_ms
        self._connection: psycopg.Connection | None = None
        self._lock = Lock()

    def check(self, subscribe: Subscribe, client: Identity) -> Checked:
        """Blocks for as long as PostgreSQL takes; raises SubscribeRefused with the words for the client."""
        with self._lock:
            try:
                connection = self._connected()
                if client.database != connection.info.dbname:
                    raise SubscribeRefused(
                        f"Execution error: live queries are kept for database '{connection.info.dbname}' only",
                        numbered=True,
                    )
                tables = self._tables(connection, subscribe, client)
                return Checked(tables, barrier.emit(connection))
            except (PostgresUnreachable, PostgresRefused, psycopg.OperationalError) as error:
                self._connection = None
                raise SubscribeRefused(f"Execution error: {error}", numbered=True) from error

    def _tables(self, connection: psycopg.Connection, subscribe: Subscribe, client: Identity) -> int:
        connection.execute("BEGIN READ ONLY")
        try:
            self._become(connection, client)
            return _examine(connection.pgconn, subscribe)
        except psycopg.Error as error:
            raise _refusal(error) from error
        finally:
            connection.execute("ROLLBACK")

    def _become(self, connection: psycopg.Connection, client: Identity) -> None:
        settings = {
            "role": client.role,
            "search_path": client.setting("search_path"),
            "statement_timeout": str(self._timeout_ms),
        }
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._postgres, application_name=APPLICATION_NAME)
        return self._connection


def _examine(server: pq.abc.PGconn, subscribe: Subscribe) -> int:
    """Parse first, so that what is not one whole statement never gets further."""
    refused: psycopg.Error | None = None
    try:
        _prepare(server, subscribe.query)
    except psycopg.Error as error:
        if error.sqlstate == SYNTAX_ERROR:
            raise
        refused = error
    tables = refuse_unless_select(subscribe.query)
    if refused is not None:
        raise refused
    statement = f"SELECT * FROM (\n{bare(subscribe.query)}\n) AS result"
    if subscribe.filter:
        refuse_unless_condition(subscribe.filter)
        statement += f" WHERE (\n{subscribe.filter}\n)"
        try:
            _prepare(server, statement)
        except psycopg.Error as error:
            if error.sqlstate == SYNTAX_ERROR:
                words = error.diag.message_primary
                raise SubscribeRefused(f"Filter parse error: {words}", numbered=False) from error
            raise
    _raise_unless_good(server.exec_params(f"{statement} LIMIT 0".encode(), list(subscribe.parameters)))
    return tables


def _prepare(server: pq.abc.PGconn, sql: str) -> None:
    _raise_unless_good(server.prepare(b"", sql.encode()))


def _raise_unless_good(result: pq.abc.PGresult) -> None:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise error_from_result(result)


def _refusal(error: psycopg.Error) -> SubscribeRefused:
    words = error.diag.message_primary or str(error)
    if error.sqlstate == SYNTAX_ERROR:
        return SubscribeRefused(f"Parse error: {words}", numbered=False)
    if error.sqlstate == "25006":
        return SubscribeRefused(ONLY_SELECT, numbered=True)
    if missing := _RELATION.fullmatch(words):
        words = f"table '{missing['name']}' does not exist"
    elif denied := _DENIED.fullmatch(words):
        words = f"permission denied for table '{denied['name']}'"
    return SubscribeRefused(f"Execution error: {words}", numbered=True)
