"""What the name of a table means to a role: by its own search path, as PostgreSQL sets it for the role's sessions."""

import psycopg

from services.gateway.core.principal import schemas_of

DEFAULT_PATH = '"$user", public'
# The nearest of ALTER ROLE … IN DATABASE, ALTER ROLE, ALTER DATABASE and ALTER ROLE ALL counts.
_PATH = """
SELECT substr(one.setting, length('search_path=') + 1)
FROM pg_catalog.pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS one(setting)
WHERE starts_with(one.setting, 'search_path=')
  AND s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
  AND s.setrole IN (0, (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = %s))
ORDER BY s.setrole <> 0 DESC, s.setdatabase <> 0 DESC LIMIT 1
"""
# The first relation of this name hides the others, also if it is no table; schemas that the role may not use are no
# part of its path.
_ON_PATH = """
SELECT c.oid, c.relkind FROM unnest(%(schemas)s::text[]) WITH ORDINALITY AS path(name, place)
JOIN pg_catalog.pg_namespace n ON n.nspname = path.name
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = %(name)s
WHERE %(role)s::text IS NULL OR EXISTS (
    SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = %(role)s AND has_schema_privilege(r.oid, n.oid, 'USAGE'))
ORDER BY path.place LIMIT 1
"""
_IN_SCHEMA = """
SELECT c.oid, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""


def search_path(connection: psycopg.Connection, role: str | None) -> str:
    """The value of search_path that sessions of this role begin with."""
    row = connection.execute(_PATH, [role]).fetchone()
    return DEFAULT_PATH if row is None else str(row[0])


def find_table(connection: psycopg.Connection, name: str, role: str | None) -> int | None:
    """By the name as it is on the role's search path, else by schema and name; names may have dots themselves."""
    path = schemas_of(search_path(connection, role))
    schemas = [role if schema == "$user" else schema for schema in path if schema != "$user" or role]
    found = connection.execute(_ON_PATH, {"schemas": schemas, "name": name, "role": role}).fetchone()
    place = name.find(".")
    while found is None and place >= 0:
        found = connection.execute(_IN_SCHEMA, [name[:place], name[place + 1 :]]).fetchone()
        place = name.find(".", place + 1)
    return int(found[0]) if found is not None and found[1] in ("r", "p", b"r", b"p") else None
