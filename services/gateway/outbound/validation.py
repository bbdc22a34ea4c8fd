"""Whether PostgreSQL would run a query for this client, asked on a connection of our own."""

import re
from collections.abc import Iterable

import psycopg
from msgspec import Struct, structs

from proto.positions import Lsn
from proto.tidewire.v1.commands_pb2 import ResolvedName
from services.changelog import barrier
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable
from services.gateway.core.principal import Principal
from services.gateway.core.requests import SubscribeRequest
from services.gateway.core.statement import bare, refuse_unless_condition, relation_names
from services.gateway.errors import RefusalCode, SubscribeRefused
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.meaning import MEANING
from services.sqlguard.parse_tree import Parsed
from services.sqlguard.refusal import ONLY_SELECT, Refused
from services.sqlguard.runners import Runners, Subscriber
from services.sqlguard.trust import examine

APPLICATION_NAME = "tidewire gateway"
CONNECTIONS = 4
# Who subscribes to a table that somebody has locked, for a migration perhaps, must not hold up all who do not.
LOCK_TIMEOUT_MS = 500
SYNTAX_ERROR = "42601"
INSUFFICIENT_PRIVILEGE = "42501"
_RELATION = re.compile(r'relation "(?P<name>.+)" does not exist')
_DENIED = re.compile(r"permission denied for (?:table|view|relation) (?P<name>.+)")


# What names of relations mean here and now. It runs with the client's rights and search_path, so all else is qualified.
_RESOLVE = """
SELECT w.schema, w.name, c.oid::pg_catalog.text, n.nspname::pg_catalog.text, c.relname::pg_catalog.text
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[])) AS w (schema, name)
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(
    CASE WHEN w.schema OPERATOR(pg_catalog.=) '' THEN pg_catalog.quote_ident(w.name)
    ELSE pg_catalog.concat(pg_catalog.quote_ident(w.schema), '.', pg_catalog.quote_ident(w.name)) END)
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
"""


class Checked(Struct, frozen=True):
    """The query is good; its first result must be at or past the barrier."""

    tables: int
    barrier_id: str
    # Where the log was when the barrier had been written: at or behind it.
    barrier_lsn: Lsn | None = None
    names: tuple[ResolvedName, ...] = ()
    # What current_setting() gives on the client's connection, as far as that is known, and what decides the meaning.
    settings_read: dict[str, str] = {}
    # What it would have to be asked there.
    settings_unknown: tuple[str, ...] = ()

    def with_settings(self, client: Principal) -> "Checked":
        """The same, after the client's settings were read; what is still unknown cannot be subscribed to."""
        found = {name: value for name in self.settings_unknown if (value := client.known(name)) is not None}
        missing = [name for name in self.settings_unknown if name not in client.certain]
        if missing:
            raise SubscribeRefused(
                RefusalCode.NOT_PROVEN,
                f"Execution error: the query or a policy reads the setting {missing[0]!r}, which can be read only "
                "while no transaction or query is under way on this connection: subscribe outside of one",
            )
        return structs.replace(self, settings_read={**self.settings_read, **found}, settings_unknown=())


class Validation:
    """Used by a few threads at a time; a failing check never touches the client's transaction."""

    def __init__(self, postgres: Postgres, *, statement_timeout_ms: int) -> None:
        self._postgres = postgres
        self._deadlines = Deadlines(statement_timeout_ms, min(statement_timeout_ms, LOCK_TIMEOUT_MS))
        self._runners = Runners(postgres, application_name=APPLICATION_NAME)

    def check(self, request: SubscribeRequest, client: Principal) -> Checked:
        """Blocks for as long as PostgreSQL takes; raises SubscribeRefused with the words for the client."""
        try:
            checked = self._checked(request, client)
            with self._runners.service() as service:
                return structs.replace(checked, barrier_id=barrier.emit(service), barrier_lsn=barrier.position(service))
        except (PostgresUnreachable, PostgresRefused, psycopg.OperationalError) as error:
            raise SubscribeRefused(RefusalCode.UNAVAILABLE, f"Execution error: {error}") from error

    def captured(self) -> Lsn | None:
        """How far the log of changes has been written; None if that cannot be found out."""
        try:
            with self._runners.service() as service:
                return barrier.captured(service)
        except (PostgresUnreachable, PostgresRefused, psycopg.Error):
            return None

    def close(self) -> None:
        """When no check is under way."""
        self._runners.close()

    def _checked(self, request: SubscribeRequest, client: Principal) -> Checked:
        try:
            with (
                self._runners.borrowed(Subscriber(client.login, client.role)) as runner,
                entered(runner, client.role, self._deadlines) as inside,
            ):
                database = runner.connection.info.dbname
                if client.database != database:
                    raise SubscribeRefused(
                        RefusalCode.INVALID_QUERY,
                        f"Execution error: live queries are kept for database '{database}' only",
                    )
                inside.set({**MEANING, **client.meaning, "search_path": client.setting("search_path")})
                return self._examine(inside, request, client)
        except Refused as refusal:
            if refusal.sqlstate == SYNTAX_ERROR:
                raise SubscribeRefused(RefusalCode.PARSE_ERROR, f"Parse error: {refusal.message}") from refusal
            words = refusal.message if refusal.message == ONLY_SELECT else f"Execution error: {refusal.message}"
            raise SubscribeRefused(RefusalCode.INVALID_QUERY, words) from refusal
        except psycopg.Error as error:
            raise _refusal(error) from error

    def _examine(self, inside: Inside, request: SubscribeRequest, client: Principal) -> Checked:
        """Let PostgreSQL read it first, so that what is not one whole statement never gets further."""
        trusted = self._postgres.trusted_owners
        parsed = examine(inside, request.query, trusted_owners=trusted)
        statement = f"SELECT * FROM (\n{bare(request.query)}\n) AS result"
        whole = parsed
        if request.filter:
            refuse_unless_condition(request.filter)
            statement += f" WHERE (\n{request.filter}\n)"
            try:
                whole = examine(inside, statement, trusted_owners=trusted)
            except (psycopg.Error, Refused) as error:
                if error.sqlstate == SYNTAX_ERROR:
                    words = error.message if isinstance(error, Refused) else error.diag.message_primary
                    raise SubscribeRefused(RefusalCode.FILTER_ERROR, f"Filter parse error: {words}") from error
                raise
        names = _resolved(inside, request, parsed)
        asked = whole.settings_read(request.parameters)
        known = {name: value for name in sorted(asked) if (value := client.known(name)) is not None}
        unknown = tuple(sorted(name for name in asked if "." in name and name not in known))
        _refuse_other_count(request, whole)
        inside.rows(f"{statement} LIMIT 0", whole.parameter_types, request.parameters, columns=len(whole.columns))
        return Checked(
            len(parsed.relations),
            barrier_id="",
            names=names,
            settings_read={**client.meaning, **known},
            settings_unknown=unknown,
        )


def _refuse_other_count(request: SubscribeRequest, parsed: Parsed) -> None:
    given, needed = len(request.parameters), len(parsed.parameter_types)
    if given != needed:
        words = f"bind message supplies {given} parameters, but the query requires {needed}"
        raise SubscribeRefused(RefusalCode.INVALID_QUERY, f"Execution error: {words}")


def _resolved(inside: Inside, request: SubscribeRequest, parsed: Parsed) -> tuple[ResolvedName, ...]:
    """What the names of relations in the query mean to the client; only such as PostgreSQL itself found in it."""
    written = sorted(relation_names(request.query))
    if not written:
        return ()
    schemas, names = ([part.encode() for part in parts] for parts in zip(*written, strict=True))
    rows = [
        [part.decode() for part in row if part is not None]
        for row in inside.ask(_RESOLVE, [_array(schemas), _array(names)], columns=5)
    ]
    return tuple(
        ResolvedName(written_schema=schema, written_name=name, oid=int(oid), schema=found_in, name=found)
        for schema, name, oid, found_in, found in rows
        if int(oid) in parsed.relations
    )


def _array(parts: Iterable[bytes]) -> bytes:
    """As PostgreSQL reads an array of texts."""
    quoted = (b'"' + part.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"' for part in parts)
    return b"{" + b",".join(quoted) + b"}"


def _refusal(error: psycopg.Error) -> SubscribeRefused:
    words = error.diag.message_primary or str(error)
    if error.sqlstate == SYNTAX_ERROR:
        return SubscribeRefused(RefusalCode.PARSE_ERROR, f"Parse error: {words}")
    if error.sqlstate == "25006":
        return SubscribeRefused(RefusalCode.INVALID_QUERY, ONLY_SELECT)
    if missing := _RELATION.fullmatch(words):
        words = f"table '{missing['name']}' does not exist"
    elif denied := _DENIED.fullmatch(words):
        words = f"permission denied for table '{denied['name']}'"
    code = RefusalCode.PERMISSION_DENIED if error.sqlstate == INSUFFICIENT_PRIVILEGE else RefusalCode.INVALID_QUERY
    return SubscribeRefused(code, f"Execution error: {words}")
