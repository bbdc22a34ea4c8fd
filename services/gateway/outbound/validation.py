"""Whether PostgreSQL would run a query for this client, asked on a connection of our own."""

import re
from queue import LifoQueue

import psycopg
from msgspec import Struct, structs
from psycopg import pq
from psycopg.errors import error_from_result

from proto.pgwire.live import Subscribe
from proto.tidewire.v1.commands_pb2 import ResolvedName
from services.chassis import barrier
from services.chassis.parsed import Parsed, keep_out_of_the_server_log, set_local
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.chassis.refusal import ONLY_SELECT, Refused
from services.chassis.trust import examine
from services.gateway.core.identity import Identity
from services.gateway.core.statement import bare, refuse_unless_condition, refuse_unless_select, relation_names
from services.gateway.errors import SubscribeRefused

APPLICATION_NAME = "tidewire gateway"
CONNECTIONS = 4
# Who subscribes to a table that somebody has locked, for a migration perhaps, must not hold up all who do not.
LOCK_TIMEOUT_MS = 500
SYNTAX_ERROR = "42601"
_RELATION = re.compile(r'relation "(?P<name>.+)" does not exist')
_DENIED = re.compile(r"permission denied for (?:table|view|relation) (?P<name>.+)")


# What names of relations mean here and now. It runs under the client's search_path, so everything else is qualified.
_RESOLVE = """
SELECT w.schema, w.name, c.oid, n.nspname, c.relname
FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]), pg_catalog.unnest(%s::pg_catalog.text[])) AS w (schema, name)
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(
    CASE WHEN w.schema OPERATOR(pg_catalog.=) '' THEN pg_catalog.quote_ident(w.name)
    ELSE pg_catalog.concat(pg_catalog.quote_ident(w.schema), '.', pg_catalog.quote_ident(w.name)) END)
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
"""


class Checked(Struct, frozen=True):
    """The query is good; its first result must be at or past the barrier."""

    tables: int
    barrier_id: str
    names: tuple[ResolvedName, ...] = ()
    # What current_setting() gives on the client's connection, as far as that is known.
    settings_read: dict[str, str] = {}
    # What it would have to be asked there.
    settings_unknown: tuple[str, ...] = ()

    def with_settings(self, client: Identity) -> "Checked":
        """The same, after the client's settings were read; what is still unknown cannot be subscribed to."""
        found = {name: value for name in self.settings_unknown if (value := client.known(name)) is not None}
        missing = [name for name in self.settings_unknown if name not in client.certain]
        if missing:
            raise SubscribeRefused(
                f"Execution error: the query or a policy reads the setting {missing[0]!r}, which can be read only "
                "while no transaction or query is under way on this connection: subscribe outside of one",
                numbered=True,
            )
        return structs.replace(self, settings_read={**self.settings_read, **found}, settings_unknown=())


class Validation:
    """A few connections, each used by one thread at a time; a failing check never touches the client's transaction."""

    def __init__(self, postgres: Postgres, *, statement_timeout_ms: int) -> None:
        self._postgres, self._timeout_ms = postgres, statement_timeout_ms
        # None stands for a connection that is still to be made; the one used last is used first.
        self._idle: LifoQueue[psycopg.Connection | None] = LifoQueue()
        for _ in range(CONNECTIONS):
            self._idle.put(None)

    def check(self, subscribe: Subscribe, client: Identity) -> Checked:
        """Blocks for as long as PostgreSQL takes; raises SubscribeRefused with the words for the client."""
        connection = self._idle.get()
        try:
            connection = self._connected(connection)
            if client.database != connection.info.dbname:
                raise SubscribeRefused(
                    f"Execution error: live queries are kept for database '{connection.info.dbname}' only",
                    numbered=True,
                )
            checked = self._checked(connection, subscribe, client)
            return structs.replace(checked, barrier_id=barrier.emit(connection))
        except (PostgresUnreachable, PostgresRefused, psycopg.OperationalError) as error:
            if connection is not None:
                connection.close()
            raise SubscribeRefused(f"Execution error: {error}", numbered=True) from error
        finally:
            self._idle.put(connection)

    def close(self) -> None:
        """When no check is under way."""
        for connection in [self._idle.get() for _ in range(CONNECTIONS)]:
            if connection is not None:
                connection.close()

    def _checked(self, connection: psycopg.Connection, subscribe: Subscribe, client: Identity) -> Checked:
        connection.execute("BEGIN READ ONLY")
        try:
            self._become(connection, client)
            return self._examine(connection, subscribe, client)
        except Refused as refusal:
            words = refusal.message if refusal.message == ONLY_SELECT else f"Execution error: {refusal.message}"
            raise SubscribeRefused(words, numbered=True) from refusal
        except psycopg.Error as error:
            raise _refusal(error) from error
        finally:
            connection.execute("ROLLBACK")

    def _become(self, connection: psycopg.Connection, client: Identity) -> None:
        settings = {
            "statement_timeout": str(self._timeout_ms),
            "lock_timeout": str(min(self._timeout_ms, LOCK_TIMEOUT_MS)),
            "search_path": client.setting("search_path"),
            "role": client.role,
        }
        set_local(connection, settings)

    def _examine(self, connection: psycopg.Connection, subscribe: Subscribe, client: Identity) -> Checked:
        """Let PostgreSQL read it first, so that what is not one whole statement never gets further."""
        trusted = self._postgres.trusted_owners
        try:
            parsed = examine(connection, subscribe.query, trusted_owners=trusted)
        except psycopg.Error as error:
            if error.sqlstate != SYNTAX_ERROR:
                refuse_unless_select(subscribe.query)
            raise
        refuse_unless_select(subscribe.query)
        statement = f"SELECT * FROM (\n{bare(subscribe.query)}\n) AS result"
        whole = parsed
        if subscribe.filter:
            refuse_unless_condition(subscribe.filter)
            statement += f" WHERE (\n{subscribe.filter}\n)"
            try:
                whole = examine(connection, statement, trusted_owners=trusted)
            except psycopg.Error as error:
                if error.sqlstate == SYNTAX_ERROR:
                    words = error.diag.message_primary
                    raise SubscribeRefused(f"Filter parse error: {words}", numbered=False) from error
                raise
        names = _resolved(connection, subscribe, parsed)
        asked = whole.settings_read(subscribe.parameters)
        known = {name: value for name in sorted(asked) if (value := client.known(name)) is not None}
        unknown = tuple(sorted(name for name in asked if "." in name and name not in known))
        parameters = list(subscribe.parameters)
        _raise_unless_good(connection.pgconn.exec_params(f"{statement} LIMIT 0".encode(), parameters))
        return Checked(len(parsed.relations), "", names, known, unknown)

    def _connected(self, connection: psycopg.Connection | None) -> psycopg.Connection:
        if connection is None or connection.closed:
            connection = connect(self._postgres, application_name=APPLICATION_NAME)
            keep_out_of_the_server_log(connection)
        return connection


def _resolved(connection: psycopg.Connection, subscribe: Subscribe, parsed: Parsed) -> tuple[ResolvedName, ...]:
    """What the names of relations in the query mean to the client; only such as PostgreSQL itself found in it."""
    written = sorted(relation_names(subscribe.query))
    if not written:
        return ()
    schemas, names = [schema for schema, _ in written], [name for _, name in written]
    return tuple(
        ResolvedName(written_schema=schema, written_name=name, oid=oid, schema=found_in, name=found)
        for schema, name, oid, found_in, found in connection.execute(_RESOLVE, [schemas, names], prepare=False)
        if oid in parsed.relations
    )


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
