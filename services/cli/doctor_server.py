"""What the server, the role and an earlier installation look like from outside."""

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct
from psycopg import sql

from services.capture.outbound.watch import EVENT_TRIGGERS, NEWEST, OLDEST, ROWS_CHANGED, Connection, one, publications


class Level(Enum):
    """Whether a finding is fine, worth knowing, or must be fixed first."""

    OK = "ok"
    NOTE = "note"
    MUST = "must"


class Finding(Struct, frozen=True):
    """One thing looked at, what was found, and what to do about it (nothing if it is well)."""

    level: Level
    subject: str
    found: str
    remedy: str = ""


def examine_server(connection: Connection) -> list[Finding]:
    """All checks that do not look at tables; none of them writes."""
    return [
        _version(connection),
        _wal_level(connection),
        _senders(connection),
        *_slots(connection),
        _kept_wal(connection),
        *_privileges(connection),
        _installation(connection),
        _isolation(connection),
    ]


def size(count: float) -> str:
    """Bytes for a reader."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def _isolation(connection: Connection) -> Finding:
    """How subscribers' queries are kept from becoming more than their role."""
    (superuser, entrance) = one(
        connection,
        """
        select r.rolsuper, exists (
            select from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_roles o on o.oid = p.proowner
            where n.nspname = '_tidewire' and p.proname = 'enter' and o.rolsuper)
        from pg_roles r where r.rolname = current_user
        """,
    )
    if entrance or superuser:
        return Finding(Level.OK, "queries", "run inside the subscriber's role, on a login without rights")
    return Finding(
        Level.NOTE,
        "queries",
        "the weaker mode: by SET ROLE on the service's login, so roles that may create objects are refused",
        "run `tidewire install` once as a superuser; see docs/security.md",
    )


def _version(connection: Connection) -> Finding:
    (version,) = one(connection, "show server_version")
    if OLDEST <= connection.info.server_version // 10000 <= NEWEST:
        return Finding(Level.OK, "version", f"PostgreSQL {version}")
    return Finding(Level.MUST, "version", f"PostgreSQL {version}", f"use PostgreSQL {OLDEST} to {NEWEST}")


def _wal_level(connection: Connection) -> Finding:
    (level,) = one(connection, "show wal_level")
    if level == "logical":
        return Finding(Level.OK, "wal_level", "logical")
    remedy = "ALTER SYSTEM SET wal_level = 'logical'; then restart PostgreSQL"
    return Finding(Level.MUST, "wal_level", str(level), remedy)


def _senders(connection: Connection) -> Finding:
    limit, used = one(
        connection, "select current_setting('max_wal_senders')::int, count(*)::int from pg_stat_replication"
    )
    assert isinstance(limit, int)
    assert isinstance(used, int)
    found = f"{used} of {limit} used"
    if used < limit:
        return Finding(Level.OK, "max_wal_senders", found)
    remedy = f"ALTER SYSTEM SET max_wal_senders = {limit + 4}; then restart PostgreSQL"
    return Finding(Level.MUST, "max_wal_senders", found, remedy)


def _slots(connection: Connection) -> Iterator[Finding]:
    slots = connection.execute(
        """
        select slot_name::text, active, wal_status,
               coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                             else pg_current_wal_lsn() end, restart_lsn), 0)::float8
        from pg_replication_slots where database = current_database() and plugin = 'pgoutput' order by 1
        """
    ).fetchall()
    limit, used = one(
        connection, "select current_setting('max_replication_slots')::int, count(*)::int from pg_replication_slots"
    )
    assert isinstance(limit, int)
    assert isinstance(used, int)
    if used < limit or slots:
        yield Finding(Level.OK, "max_replication_slots", f"{used} of {limit} used")
    else:
        remedy = f"ALTER SYSTEM SET max_replication_slots = {limit + 4}; then restart PostgreSQL"
        yield Finding(Level.MUST, "max_replication_slots", f"{used} of {limit} used", remedy)
    for name, active, status, retained in slots:
        assert isinstance(retained, float)
        yield _slot(str(name), bool(active), str(status), retained)


def _slot(name: str, active: bool, status: str, retained: float) -> Finding:
    subject = f"slot {name}"
    found = f"{'active' if active else 'not active'}, {status}, keeps {size(retained)} of WAL"
    drop = f"SELECT pg_drop_replication_slot({sql.Literal(name).as_string()})"
    if status == "lost":
        return Finding(Level.MUST, subject, found, f"its WAL is gone: {drop}; capture then starts a new epoch")
    if status == "unreserved":
        return Finding(Level.NOTE, subject, found, "start capture now, or its WAL is removed at the next checkpoint")
    if not active:
        return Finding(
            Level.NOTE, subject, found, f"start its reader, or {drop}: it keeps WAL for as long as it exists"
        )
    return Finding(Level.OK, subject, found)


def _kept_wal(connection: Connection) -> Finding:
    (limit,) = one(connection, "show max_slot_wal_keep_size")
    if limit != "-1":
        return Finding(Level.OK, "max_slot_wal_keep_size", str(limit))
    return Finding(
        Level.NOTE,
        "max_slot_wal_keep_size",
        "unlimited: while capture is down WAL may fill the disk",
        "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB' (a lost slot is noticed and begins a new history)",
    )


def _privileges(connection: Connection) -> Iterator[Finding]:
    role, superuser, may_replicate, may_create, database = one(
        connection,
        """
        select current_user::text, r.rolsuper,
               r.rolsuper or r.rolreplication or exists (
                   select from pg_roles g where g.rolname = 'rds_replication' and pg_has_role(g.oid, 'member')),
               has_database_privilege(current_database(), 'create'), current_database()::text
        from pg_roles r where r.rolname = current_user
        """,
    )
    name = sql.Identifier(str(role)).as_string()
    if superuser:
        yield Finding(Level.OK, f"role {role}", "superuser: every table, seen in the transaction that makes it")
        return
    yield Finding(
        Level.NOTE,
        f"role {role}",
        "no superuser, so the weaker mode: only tables that the role owns, new tables and DDL seen by polling",
        "run `tidewire install` once as a superuser for the strict mode; see docs/privileges.md",
    )
    if not may_replicate:
        yield Finding(Level.MUST, f"role {role}", "may not replicate", f"ALTER ROLE {name} REPLICATION")
    if not may_create:
        place = sql.Identifier(str(database)).as_string()
        remedy = f"GRANT CREATE ON DATABASE {place} TO {name}"
        yield Finding(Level.MUST, f"role {role}", "may not create schemas and publications", remedy)


def _installation(connection: Connection) -> Finding:
    lists = len(publications(connection))
    triggers, schema = one(
        connection,
        "select (select count(*)::int from pg_event_trigger where evtname = any (%s) and evtenabled <> 'D'), "
        "to_regnamespace('_tidewire') is not null",
        list(EVENT_TRIGGERS),
    )
    expected = len(ROWS_CHANGED) + 1
    found = f"{lists} of {expected} publications, {triggers} of {len(EVENT_TRIGGERS)} event triggers"
    if not lists and not triggers:
        return Finding(Level.OK, "installation", "none yet: capture installs itself when it starts")
    if schema and lists == expected and triggers == len(EVENT_TRIGGERS):
        return Finding(Level.OK, "installation", found)
    if schema and lists == expected and triggers == 0:
        return Finding(Level.NOTE, "installation", f"{found}: the weaker mode", "see docs/privileges.md")
    return Finding(Level.MUST, "installation", found, "restart capture, which mends it, or run `tidewire uninstall`")
