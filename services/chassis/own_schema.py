"""The schema `_tidewire`, in which everything of ours is: made closed to all, and never taken over from a stranger."""

from typing import Any

import psycopg
from msgspec import Struct

from services.chassis.postgres import PostgresRefused

Connection = psycopg.Connection[Any]

_OWNER = """
    select r.rolname::text,
           r.rolsuper or r.oid = me.oid
               or not me.rolsuper and (r.oid = d.datdba or pg_has_role(me.oid, r.oid, 'member'))
    from pg_roles me
    join pg_database d on d.datname = current_database()
    join pg_namespace n on n.nspname = '_tidewire'
    join pg_roles r on r.oid = n.nspowner
    where me.rolname = current_user
"""
# ALTER DEFAULT PRIVILEGES may have opened the new schema to others. Whoever has rights later was given them on purpose.
_CLOSE = """
    do $$ declare other oid;
    begin
        for other in
            select distinct a.grantee from pg_namespace n cross join aclexplode(n.nspacl) a
            where n.nspname = '_tidewire' and a.grantee <> n.nspowner
        loop
            execute format('revoke all on schema _tidewire from %s',
                           coalesce((select quote_ident(r.rolname) from pg_roles r where r.oid = other), 'public'));
        end loop;
    end $$
"""


class SchemaOwner(Struct, frozen=True):
    """Whose the schema is, and whether what may stand in it can be run with the rights of the present role."""

    name: str
    trusted: bool


def owner(connection: Connection) -> SchemaOwner | None:
    """None if there is no such schema."""
    row = connection.execute(_OWNER).fetchone()
    return None if row is None else SchemaOwner(*row)


class SchemaOfStranger(PostgresRefused):
    """What somebody may have put into a schema that is called like ours would run with a service's rights."""

    def __init__(self, name: str) -> None:
        Exception.__init__(
            self,
            f"the schema _tidewire belongs to role {name!r}, who is not the installer: have an administrator run "
            "DROP SCHEMA _tidewire CASCADE, then `tidewire install`",
        )
        self.owner = name


def exists(connection: Connection) -> bool:
    """Whether there is one; SchemaOfStranger if it is not ours. Ask before each call of anything in it."""
    found = owner(connection)
    if found is not None and not found.trusted:
        raise SchemaOfStranger(found.name)
    return found is not None


def create(connection: Connection) -> None:
    connection.execute("create schema _tidewire")
    connection.execute(_CLOSE)
