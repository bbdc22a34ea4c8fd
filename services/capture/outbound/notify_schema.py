"""Schema `pgr` of the NOTIFY door: made and upgraded with `_tidewire`, and never in the place of somebody else's."""

from importlib import resources

from psycopg import sql
from psycopg.errors import InsufficientPrivilege

from services.chassis.own_schema import Connection

OURS = "Tidewire: the NOTIFY door"
# What SHOW tells in new sessions; a value that an administrator set before stays.
SETTINGS = {
    "notify_channel": "pgr",
    "max_subscriptions": "1024",
    "batch_invalidation": "on",
    "async_recompute": "off",
    "database": "",
}
_STANDING = """
    select n.nspowner = o.nspowner and obj_description(n.oid, 'pg_namespace') = %s
    from pg_namespace n, pg_namespace o where n.nspname = 'pgr' and o.nspname = '_tidewire'
"""
_SET_ALREADY = """
    select exists (
        select from pg_db_role_setting s cross join unnest(s.setconfig) given
        where s.setrole = 0 and s.setdatabase = (select oid from pg_database where datname = current_database())
          and split_part(given, '=', 1) = 'pg_reactive.' || %s)
"""


def script() -> str:
    return (resources.files("services.capture") / "sql" / "pgr.sql").read_text()


def install(connection: Connection) -> None:
    """Inside the transaction that installs the rest; where a schema pgr of another stands, the door stays shut."""
    row = connection.execute(_STANDING, [OURS]).fetchone()
    if row is not None and not row[0]:
        return
    if row is None:
        connection.execute("create schema pgr")
        connection.execute(sql.SQL("comment on schema pgr is {}").format(sql.Literal(OURS)))
    connection.execute(script().encode())
    _settings(connection)


def _settings(connection: Connection) -> None:
    database = sql.Identifier(connection.info.dbname)
    for name, value in SETTINGS.items():
        found = connection.execute(_SET_ALREADY, [name]).fetchone()
        if found is not None and found[0]:
            continue
        try:
            with connection.transaction():
                connection.execute(
                    sql.SQL("alter database {} set {} = {}").format(
                        database,
                        sql.Identifier("pg_reactive", name),
                        sql.Literal(value or connection.info.dbname),
                    )
                )
        except InsufficientPrivilege:
            return  # not the database's owner: SHOW does not know the settings, and the defaults count
