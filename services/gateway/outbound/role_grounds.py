"""Whether a role may read tables whole, and on which rows of the catalog that rests."""

from collections.abc import Iterable

import psycopg

from services.gateway.core.cdc.grounds import Grounds

# Raw rows go to this role only if it may read the whole table and no policy binds it there (decision 19). Grants
# are also read from the rows of the catalog: has_table_privilege answers from a cache, which a commit that can be seen
# already may not have reached. Then: whether grants to the role itself or to all are enough; whether an attribute of
# the role is needed; who owns the table, its schema and the database since when, as REASSIGN OWNED is told by no event
# trigger; and the roles of which a member may read it.
_MAY_READ = """
SELECT c.oid,
       NOT r.rolsuper AND (NOT c.relrowsecurity OR (NOT c.relforcerowsecurity AND c.relowner = r.oid))
       AND EXISTS (SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) g
                   WHERE g.privilege_type = 'USAGE' AND g.grantee IN (0, r.oid))
       AND EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g
                   WHERE g.privilege_type = 'SELECT' AND g.grantee IN (0, r.oid)),
       r.rolsuper OR (c.relrowsecurity AND r.rolbypassrls),
       ARRAY(SELECT concat_ws(' ', 'owner', d.objid, d.xmin) FROM pg_shdepend d
             JOIN pg_database own ON own.datname = current_database()
             WHERE d.deptype = 'o' AND d.objsubid = 0
               AND (d.dbid, d.classid, d.objid) IN ((own.oid, 'pg_class'::regclass, c.oid),
                   (own.oid, 'pg_namespace'::regclass, n.oid), (0, 'pg_database'::regclass, own.oid))),
       ARRAY(SELECT g.grantee::int8 FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g
             WHERE g.privilege_type = 'SELECT'
             UNION SELECT g.grantee FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) g
             WHERE g.privilege_type = 'USAGE'
             UNION VALUES (c.relowner::int8), (n.nspowner::int8), ('pg_read_all_data'::regrole::oid::int8))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, pg_roles r
WHERE c.oid = ANY (%s) AND r.rolname = %s AND r.rolcanlogin
  AND has_schema_privilege(r.oid, c.relnamespace, 'USAGE') AND has_table_privilege(r.oid, c.oid, 'SELECT')
  AND (r.rolsuper OR pg_has_role(r.oid, 'pg_read_all_data', 'USAGE')
       OR EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g
                  WHERE g.privilege_type = 'SELECT' AND (g.grantee = 0 OR pg_has_role(r.oid, g.grantee, 'USAGE'))))
  AND (NOT c.relrowsecurity OR r.rolsuper OR r.rolbypassrls
       OR (NOT c.relforcerowsecurity AND pg_has_role(r.oid, c.relowner, 'USAGE')))
"""
_HOLDS = """
WITH RECURSIVE holds(oid) AS (
    SELECT oid FROM pg_roles WHERE rolname = %(role)s
    UNION
    SELECT m.roleid FROM holds h JOIN pg_auth_members m ON m.member = h.oid
)
"""
# Those that lead to one of the roles `to`: whatever else somebody makes the role a member of changes nothing.
_MEMBERSHIPS = (
    _HOLDS
    + """
, leads(oid) AS (
    SELECT unnest(%(to)s::int8[])::oid
    UNION
    SELECT m.member FROM leads l JOIN pg_auth_members m ON m.roleid = l.oid JOIN holds h ON h.oid = m.member
)
SELECT concat_ws(' ', 'member', m.member, m.roleid, m.xmin) FROM pg_auth_members m JOIN holds h ON h.oid = m.member
WHERE %(to)s::int8[] IS NULL OR m.roleid IN (SELECT oid FROM leads)
"""
)
# Attributes are each role's own; but whether a role inherits was one before PostgreSQL 16.
_ATTRIBUTES = (
    _HOLDS
    + """
SELECT concat_ws(' ', 'role', a.oid, a.xmin) FROM pg_authid a JOIN holds h ON h.oid = a.oid
WHERE current_setting('server_version_num')::int < 160000 OR a.oid = (SELECT oid FROM pg_roles WHERE rolname = %(role)s)
"""
)
_IS_SUPERUSER = "SELECT rolsuper FROM pg_roles WHERE rolname = %s"
# From here on each membership says itself whether it is inherited; before, an attribute of the member did.
_INHERITED_BY_MEMBERSHIP = 160000


def readable(connection: psycopg.Connection, role: str, oids: Iterable[int]) -> dict[int, Grounds]:
    """The tables that the role may have the raw rows of, and why.

    The rows are read after the right was seen: what changed in between is in them.
    """
    rows = connection.execute(_MAY_READ, [list(oids), role]).fetchall()
    found = {oid: Grounds(frozenset(owners), is_direct=True) for oid, is_direct, _, owners, _ in rows if is_direct}
    others = [row for row in rows if row[0] not in found]
    if not others:
        return found
    held = _read(connection, _MEMBERSHIPS, role, to=sorted({giver for row in others for giver in row[4]}))
    by_inheriting = bool(held) and connection.info.server_version < _INHERITED_BY_MEMBERSHIP
    needing = {oid for oid, _, by_attribute, _, _ in others if by_attribute or by_inheriting}
    attributes = _attributes(connection, role) if needing else None
    for oid, _, _, owners, _ in others:
        seen = attributes if oid in needing else frozenset[str]()
        found[oid] = Grounds(frozenset(owners) | held | (seen or frozenset()), is_whole=seen is not None)
    return found


def memberships(connection: psycopg.Connection, role: str) -> Grounds:
    """What a service role rests on that the role has by membership, or as a superuser."""
    held = _read(connection, _MEMBERSHIPS, role)
    row = connection.execute(_IS_SUPERUSER, [role]).fetchone()
    if row is None or not row[0]:
        return Grounds(held)
    attributes = _attributes(connection, role)
    return Grounds(held | (attributes or frozenset()), is_whole=attributes is not None)


def _attributes(connection: psycopg.Connection, role: str) -> frozenset[str] | None:
    """None where the gateway's own role may not look."""
    try:
        return _read(connection, _ATTRIBUTES, role)
    except psycopg.errors.InsufficientPrivilege:
        return None


def _read(connection: psycopg.Connection, question: str, role: str, to: list[int] | None = None) -> frozenset[str]:
    return frozenset(row for (row,) in connection.execute(question.encode(), {"role": role, "to": to}))
