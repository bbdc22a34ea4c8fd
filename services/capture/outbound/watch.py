"""What Tidewire puts into the user's database so that logical replication sees every ordinary table.

Connections are in autocommit mode: each step is a transaction of its own, so that locks are never piled up.
"""

import hashlib
from enum import Enum
from importlib import resources
from typing import LiteralString

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.errors import (
    DuplicateSchema,
    InsufficientPrivilege,
    InvalidSchemaName,
    LockNotAvailable,
    UndefinedTable,
    UniqueViolation,
)

from services.capture.outbound import notify_schema
from services.capture.outbound.watch_errors import (
    MissingPrivilege,
    TablesBusy,
    Uninstalled,
    UnsupportedVersion,
    WalLevelNotLogical,
)
from services.chassis import own_schema
from services.chassis.backoff import Backoff
from services.sqlguard import entrance_install

Connection = psycopg.Connection[tuple[object, ...]]

OLDEST, NEWEST = 15, 18
# Held by whoever installs or uninstalls; not an advisory lock, which any login could hold.
INSTALL_LOCK = "lock table _tidewire.capture in share update exclusive mode"
ROWS_ADDED = "tidewire"
ROWS_CHANGED = tuple(f"tidewire_{number:02}" for number in range(32))
# Event, function, and for which commands. On the same event they fire in the order of their names.
EVENT_TRIGGERS = {
    "tidewire_caller_starts": ("ddl_command_start", "note_caller", ("ALTER TABLE",)),
    "tidewire_caller_ended": ("ddl_command_end", "note_caller", ()),
    "tidewire_caller_dropped": ("sql_drop", "note_caller", ()),
    "tidewire_command_starts": ("ddl_command_start", "command_starts", ("ALTER TABLE",)),
    "tidewire_command_ended": ("ddl_command_end", "command_ended", ()),
    "tidewire_objects_dropped": ("sql_drop", "objects_dropped", ()),
}
# What one who installs meets while another one does, for the first time, or uninstalls.
_BESIDE_ANOTHER = (LockNotAvailable, UniqueViolation, DuplicateSchema, InvalidSchemaName, UndefinedTable)
_SCRIPTS = (
    "coverage.sql",
    "marks.sql",
    "adoption.sql",
    "triggers.sql",
    "registrations.sql",
    "topics.sql",
    "topic_statements.sql",
    "topic_sources.sql",
    "privileges.sql",
)


class Mode(Enum):
    """Strict: every table, seen in the transaction that makes it. Weaker: the role's own tables, seen by polling."""

    STRICT = "strict"
    WEAKER = "weaker"


class Installed(Struct, frozen=True, kw_only=True):
    """What installing came to: the mode, why it is not the strict one, and how many tables wait for a sweep."""

    mode: Mode
    reasons: tuple[str, ...]
    pending: int


def check(connection: Connection) -> None:
    """Raise if this server or role cannot be used at all."""
    version = connection.info.server_version
    if not OLDEST <= version // 10000 <= NEWEST:
        raise UnsupportedVersion(f"{version // 10000}.{version % 10000}")
    (wal_level,) = one(connection, "show wal_level")
    if wal_level != "logical":
        raise WalLevelNotLogical(str(wal_level))
    role, database, may_replicate, may_create = one(
        connection,
        """
        select current_user::text, current_database()::text,
               r.rolsuper or r.rolreplication or exists (
                   select from pg_roles g where g.rolname = 'rds_replication' and pg_has_role(g.oid, 'member')),
               has_database_privilege(current_database(), 'create') or to_regnamespace('_tidewire') is not null
        from pg_roles r where r.rolname = current_user
        """,
    )
    quoted = sql.Identifier(str(role)).as_string()
    if not may_replicate:
        raise MissingPrivilege(str(role), "may not replicate", f"ALTER ROLE {quoted} REPLICATION")
    if not may_create:
        place = sql.Identifier(str(database)).as_string()
        raise MissingPrivilege(
            str(role), "may not create schemas and publications", f"GRANT CREATE ON DATABASE {place} TO {quoted}"
        )


def install(
    connection: Connection, lock_timeout_ms: int = 1000, give_up_after_s: float = 60.0, *, only_again: bool = False
) -> Installed:
    """Install or upgrade, then adopt every table whose lock can be had; running it again changes nothing.

    `only_again`: it was installed before, and if it is gone now then somebody removed it.
    """
    check(connection)
    for _ in Backoff().attempts(give_up_after_s=give_up_after_s):
        try:
            reasons = _build(connection, lock_timeout_ms, only_again)
        except _BESIDE_ANOTHER:
            continue
        except InsufficientPrivilege as refusal:
            raise _not_the_owner(connection) from refusal
        entrance_install.install(connection)
        return Installed(mode=Mode.WEAKER if reasons else Mode.STRICT, reasons=reasons, pending=sweep(connection))
    raise TablesBusy("the objects of an earlier Tidewire")


def sweep(connection: Connection) -> int:
    """Adopt what is not right yet, a table a transaction; return how many tables still wait for a lock."""
    for (relid,) in connection.execute("select relid from _tidewire.waiting()").fetchall():
        connection.execute("select _tidewire.adopt(%s)", [relid])
    (count,) = one(connection, "select count(*)::int from _tidewire.waiting() where uncovered")
    assert isinstance(count, int)
    return count


def publications(connection: Connection) -> list[str]:
    """The publications that a walsender must be started with: all of ours that exist."""
    rows = connection.execute(
        "select pubname::text from pg_publication where pubname = any (%s) order by 1", [[ROWS_ADDED, *ROWS_CHANGED]]
    )
    return [str(name) for (name,) in rows]


def tables_query() -> str:
    """The query of _tidewire.coverage, for a database in which nothing is installed."""
    return _script("tables.sql")


def one(connection: Connection, query: str, *parameters: object) -> tuple[object, ...]:
    """The only row of a query that has exactly one."""
    row = connection.execute(query.encode(), parameters or None).fetchone()
    assert row is not None
    return row


def _build(connection: Connection, lock_timeout_ms: int, only_again: bool) -> tuple[str, ...]:
    with connection.transaction():
        connection.execute("select set_config('lock_timeout', %s, true)", [f"{lock_timeout_ms}ms"])
        connection.execute("set local client_min_messages = warning")
        # Views keep what their names meant when they were made.
        connection.execute("set local search_path = pg_catalog, pg_temp")
        _take_schema(connection, only_again)
        upgraded = _run_scripts(connection)
        reasons = [_create_publications(connection), _create_event_triggers(connection)]
        if upgraded:
            # What an older version wrote into the WAL may not count any more, so that everything is in doubt.
            connection.execute("select _tidewire.mark('TIDEWIRE INSTALL', '[]')")
    return tuple(reason for reason in reasons if reason)


def _take_schema(connection: Connection, only_again: bool) -> None:
    """Make the schema, or lock out others who install; a schema that somebody else made is not filled with our code."""
    owner = own_schema.owner(connection)
    if owner is None:
        if only_again:
            raise Uninstalled
        own_schema.create(connection)
        return
    if not owner.trusted:
        raise MissingPrivilege(
            connection.info.user,
            f"would run what {owner.name} may have put into schema _tidewire",
            "DROP SCHEMA _tidewire CASCADE, or `tidewire uninstall`, and start again",
        )
    (installed,) = one(connection, "select to_regclass('_tidewire.capture') is not null")
    if installed:
        connection.execute(INSTALL_LOCK)


def _run_scripts(connection: Connection) -> bool:
    """Whether another version was installed here before."""
    scripts = [
        _script("schema.sql"),
        "drop view if exists _tidewire.untracked, _tidewire.pending, _tidewire.coverage",
        f"create view _tidewire.coverage as {tables_query()}",
        *map(_script, _SCRIPTS),
    ]
    stamp = "Tidewire " + hashlib.sha256("".join([*scripts, notify_schema.script()]).encode()).hexdigest()[:16]
    (found,) = one(connection, "select obj_description(to_regnamespace('_tidewire'), 'pg_namespace')")
    if found == stamp:
        return False
    # Our own commands are not news to anyone.
    _switch_event_triggers(connection, "disable")
    for script in scripts:
        connection.execute(script.encode())
    notify_schema.install(connection)
    connection.execute(sql.SQL("comment on schema _tidewire is {}").format(sql.Literal(stamp)))
    _switch_event_triggers(connection, "enable always")
    return found is not None


def _switch_event_triggers(connection: Connection, state: LiteralString) -> None:
    """Within this transaction; sessions beside it see no change."""
    for (name,) in connection.execute(
        "select evtname::text from pg_event_trigger where evtname = any (%s)", [list(EVENT_TRIGGERS)]
    ).fetchall():
        connection.execute(sql.SQL("alter event trigger {} " + state).format(sql.Identifier(str(name))))


def _script(name: str) -> str:
    return (resources.files("services.capture") / "sql" / name).read_text()


def _create_publications(connection: Connection) -> str | None:
    existing = set(publications(connection))
    generated = ", publish_generated_columns = stored" if connection.info.server_version >= 180000 else ""
    command = sql.SQL("create publication {} {} with (publish = {}" + generated + ")")
    for name in set(ROWS_CHANGED) - existing:
        connection.execute(command.format(sql.Identifier(name), sql.SQL(""), sql.Literal("update, delete")))
    added = sql.Identifier(ROWS_ADDED), sql.Literal("insert, truncate")
    if ROWS_ADDED not in existing:
        try:
            with connection.transaction():
                connection.execute(command.format(added[0], sql.SQL("for all tables"), added[1]))
        except InsufficientPrivilege:
            connection.execute(command.format(added[0], sql.SQL(""), added[1]))
    (everything,) = one(connection, "select puballtables from pg_publication where pubname = %s", ROWS_ADDED)
    if everything:
        return None
    (marks,) = one(
        connection,
        "select exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid "
        "where p.pubname = %s and r.prrelid = '_tidewire.marks'::regclass)",
        ROWS_ADDED,
    )
    if not marks:
        connection.execute(sql.SQL("alter publication {} add table only _tidewire.marks").format(added[0]))
    return "the role is no superuser: only tables that it owns are published"


def _create_event_triggers(connection: Connection) -> str | None:
    existing = {name for (name,) in connection.execute("select evtname::text from pg_event_trigger")}
    try:
        with connection.transaction():
            for name in EVENT_TRIGGERS.keys() - existing:
                _create_event_trigger(connection, name)
    except InsufficientPrivilege:
        return "the role may not create event triggers: new tables and DDL are seen by polling the catalog"
    return None


def _create_event_trigger(connection: Connection, name: str) -> None:
    event, function, tags = EVENT_TRIGGERS[name]
    when: sql.SQL | sql.Composed = sql.SQL("")
    if tags:
        when = sql.SQL("when tag in ({})").format(sql.SQL(", ").join(map(sql.Literal, tags)))
    connection.execute(
        sql.SQL("create event trigger {} on {} {} execute function _tidewire.{}()").format(
            sql.Identifier(name), sql.SQL(event), when, sql.Identifier(function)
        )
    )
    # A session with session_replication_role = replica, as restores use it, makes tables too.
    connection.execute(sql.SQL("alter event trigger {} enable always").format(sql.Identifier(name)))


def _not_the_owner(connection: Connection) -> MissingPrivilege:
    role, owner = one(
        connection,
        "select current_user::text, (select nspowner::regrole::text from pg_namespace where nspname = '_tidewire')",
    )
    remedy = f"GRANT {owner} TO {sql.Identifier(str(role)).as_string()}, or connect as {owner}"
    return MissingPrivilege(str(role), "does not own the Tidewire that is installed here", remedy)
