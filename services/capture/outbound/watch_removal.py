"""Removes Tidewire from a database without leaving anything behind."""

from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import LockNotAvailable, ObjectInUse, UndefinedObject

from services.capture.outbound import notify_schema
from services.capture.outbound.watch import EVENT_TRIGGERS, INSTALL_LOCK, Connection, one, publications
from services.capture.outbound.watch_errors import SlotNotDropped, TablesBusy
from services.chassis.backoff import Backoff
from services.sqlguard import entrance_install

# A view of ours reads from the schema that topic SQL calls.
_OUR_VIEW = """
    select from pg_views where schemaname = 'system' and viewname = %s and definition like '%%_tidewire_topics.%%'
"""
_OUR_SYSTEM = """
    select from pg_namespace n
    where n.nspname = %s and obj_description(n.oid, 'pg_namespace') = 'Tidewire: views of topics'
      and not exists (select from pg_class c where c.relnamespace = n.oid)
      and not exists (select from pg_proc p where p.pronamespace = n.oid)
      and not exists (select from pg_type t where t.typnamespace = n.oid)
"""
_IDENTITIES = {"d": "default", "f": "full", "n": "nothing"}


def uninstall(
    connection: Connection, slot: str, lock_timeout_ms: int = 200, give_up_after_s: float = 30.0
) -> list[str]:
    """Remove slot, triggers, publications and schema, restore identities; return a sentence for each thing done."""
    dsn = make_conninfo(connection.info.dsn, password=connection.info.password)
    with psycopg.connect(dsn) as guard:
        for each in (connection, guard):
            each.execute("select set_config('lock_timeout', %s, false)", [f"{lock_timeout_ms}ms"])
        try:
            # A capture that still runs waits for this lock until everything is removed, and then ends.
            if _exists(guard, "select where to_regclass(%s) is not null", "_tidewire.capture"):
                _patiently(guard, sql.SQL(INSTALL_LOCK), "schema _tidewire", give_up_after_s)
            return _undone(connection, guard, slot, give_up_after_s)
        finally:
            connection.execute("reset lock_timeout")


def _undone(connection: Connection, guard: Connection, slot: str, give_up_after_s: float) -> list[str]:
    """`guard` holds the lock of the installation, and so drops the schema, in which that lock is."""
    done = list(_drop_slot(connection, slot, give_up_after_s))
    for name in EVENT_TRIGGERS:
        if _exists(connection, "select from pg_event_trigger where evtname = %s", name):
            connection.execute(sql.SQL("drop event trigger if exists {}").format(sql.Identifier(name)))
            done.append(f"dropped event trigger {name}")
    for name in publications(connection):
        command = sql.SQL("drop publication if exists {}").format(sql.Identifier(name))
        _patiently(connection, command, f"publication {name}", give_up_after_s)
        done.append(f"dropped publication {name}")
    done += _restore_identities(connection, give_up_after_s)
    if _exists(
        connection, "select where obj_description(to_regnamespace('pgr'), 'pg_namespace') = %s", notify_schema.OURS
    ):
        _patiently(guard, sql.SQL("drop schema if exists pgr cascade"), "schema pgr", give_up_after_s)
        for name in notify_schema.SETTINGS:
            _reset_setting(connection, name)
        done.append("dropped schema pgr")
    if _exists(connection, "select from pg_namespace where nspname = %s", "_tidewire"):
        _patiently(guard, sql.SQL("drop schema if exists _tidewire cascade"), "schema _tidewire", give_up_after_s)
        done.append("dropped schema _tidewire")
    done += _drop_topics(guard, give_up_after_s)
    guard.commit()
    if runner := entrance_install.remove(connection):
        done.append(f"dropped role {runner}")
    return done


def _drop_topics(guard: Connection, give_up_after_s: float) -> Iterator[str]:
    """The schema that topic SQL calls, and the views in `system`, which is left if it is not ours or holds more."""
    for view in ("topics", "topic_offsets", "topic_dead"):
        command = sql.SQL("drop view if exists system.{}").format(sql.Identifier(view))
        if _exists(guard, _OUR_VIEW, view):
            _patiently(guard, command, f"view system.{view}", give_up_after_s)
    if _exists(guard, "select from pg_namespace where nspname = %s", "_tidewire_topics"):
        gone = sql.SQL("drop schema if exists _tidewire_topics cascade")
        _patiently(guard, gone, "schema _tidewire_topics", give_up_after_s)
        yield "dropped schema _tidewire_topics"
    if _exists(guard, _OUR_SYSTEM, "system"):
        _patiently(guard, sql.SQL("drop schema if exists system"), "schema system", give_up_after_s)
        yield "dropped schema system"


def _reset_setting(connection: Connection, name: str) -> None:
    connection.execute(
        sql.SQL("alter database {} reset {}").format(
            sql.Identifier(connection.info.dbname), sql.Identifier("pg_reactive", name)
        )
    )


def _drop_slot(connection: Connection, slot: str, give_up_after_s: float) -> Iterator[str]:
    query = """
        select active_pid from pg_replication_slots
        where slot_name = %s and slot_type = 'logical' and database = current_database()
    """
    if not _exists(connection, query, slot):
        return
    for _ in Backoff(first_s=0.05, cap_s=1.0).attempts(give_up_after_s=give_up_after_s):
        connection.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots "
            "where slot_name = %s and active_pid is not null",
            [slot],
        )
        try:
            connection.execute("select pg_drop_replication_slot(%s)", [slot])
        except ObjectInUse:
            continue
        except UndefinedObject:
            return
        yield f"dropped replication slot {slot}"
        return
    raise SlotNotDropped(slot)


def _restore_identities(connection: Connection, give_up_after_s: float) -> Iterator[str]:
    if not _exists(connection, "select from pg_tables where schemaname = '_tidewire' and tablename = %s", "identities"):
        return
    changed = connection.execute(
        """
        select i.relid, format('%I.%I', n.nspname, c.relname), i.former::text, x.relname::text,
               c.relreplident = i.given and (i.given <> 'i' or exists (
                   select from pg_index g where g.indexrelid = i.given_index and g.indisreplident))
        from _tidewire.identities i
        join pg_class c on c.oid = i.relid
        join pg_namespace n on n.oid = c.relnamespace
        left join pg_class x on x.oid = i.former_index and i.former = 'i'
        order by 2
        """
    ).fetchall()
    for relid, title, former, index, untouched in changed:
        name = sql.SQL(str(title))
        if untouched:
            former_identity: sql.SQL | sql.Composed = sql.SQL(_IDENTITIES.get(str(former), "nothing"))
            if index is not None:
                former_identity = sql.SQL("using index {}").format(sql.Identifier(str(index)))
            command = sql.SQL("alter table if exists only {} replica identity {}").format(name, former_identity)
            _patiently(connection, command, f"table {title}", give_up_after_s)
            yield f"restored the replica identity of {title}"
        else:
            yield f"left the replica identity of {title} as somebody else set it"
        connection.execute("delete from _tidewire.identities where relid = %s", [relid])


def _patiently(connection: Connection, command: sql.SQL | sql.Composed, what: str, give_up_after_s: float) -> None:
    for _ in Backoff().attempts(give_up_after_s=give_up_after_s):
        try:
            with connection.transaction():
                connection.execute(command)
        except LockNotAvailable:
            continue
        return
    raise TablesBusy(what)


def _exists(connection: Connection, query: str, name: str) -> bool:
    (found,) = one(connection, f"select exists ({query})", name)
    return bool(found)
