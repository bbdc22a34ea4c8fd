"""Whether a role may read tables whole, and on which rows of the catalog that rests."""

from collections.abc import Iterable

import psycopg

from services.gateway.core.cdc.grounds import Grounds

# Raw rows go to this role only if it may read the whole table and no policy binds it there (decision 19). Grants
# are also read from the rows of the catalog: has_table_privilege answers from a cache, which a commit that can be seen
# already may not have reached. Then: whether grants to the role itself or to all are enough; whether an attribute of
# the role is needed; and who owns the table and its schema since when, as REASSIGN OWNED is told by no event trigger.
_MAY_READ = """
SELECT c.oid,
       NOT r.rolsuper AND (NOT c.relrowsecurity OR (NOT c.relforcerowsecurity AND c.relowner = r.oid))
       AND EXISTS (SELECT FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) g
                   WHERE g.privilege_type = 'USAGE' AND g.grantee IN (0, r.oid))
       AND EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) g
                   WHERE g.privilege_type = 'SELECT' AND g.grantee IN (0, r.oid)),
       r.rolsuper OR (c.relrowsecurity AND r.rolbypassrls),
       ARRAY(SELECT concat_ws(' ', 'owner', d.objid, d.xmin) FROM pg_shdepend d
             WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND d.deptype = 'o'
               AND d.objsubid = 0 AND ((d.classid = 'pg_class'::regclass AND d.objid = c.oid)
                                       OR (d.classid = 'pg_namespace'::regclass AND d.objid = n.oid)))
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
    SELECT oid FROM pg_roles WHERE rolname = %s
    UNION
    SELECT m.roleid FROM holds h JOIN pg_auth_members m ON m.member = h.oid
)
"""
_MEMBERSHIPS = (
    _HOLDS + "SELECT concat_ws(' ', 'member', m.member, m.roleid, m.xmin) FROM pg_auth_members m JOIN holds h "
    "ON h.oid = m.member"
)
_ATTRIBUTES = _HOLDS + "SELECT concat_ws(' ', 'role', a.oid, a.xmin) FROM pg_authid a JOIN holds h ON h.oid = a.oid"
_IS_SUPERUSER = "SELECT rolsuper FROM pg_roles WHERE rolname = %s"
_DIRECT = "direct"
# From here on each membership says itself whether it is inherited; before, an attribute of the member did.
_INHERITED_BY_MEMBERSHIP = 160000


def readable(connection: psycopg.Connection, role: str, oids: Iterable[int]) -> dict[int, Grounds]:
    """The tables that the role may have the raw rows of, and why.

    The rows are read after the right was seen: what changed in between is in them.
    """
    rows = connection.execute(_MAY_READ, [list(oids), role]).fetchall()
    memberships, attributes = frozenset[str](), None
    if not all(is_direct for _, is_direct, _, _ in rows):
        memberships = _read(connection, _MEMBERSHIPS, role)
        by_attribute = any(by_attribute for _, _, by_attribute, _ in rows)
        if by_attribute or (memberships and _is_inherited_by_attribute(connection)):
            attributes = _attributes(connection, role)
    found: dict[int, Grounds] = {}
    for oid, is_direct, by_attribute, owners in rows:
        told = frozenset(f"{oid} {owner}" for owner in owners)
        if is_direct:
            found[oid] = Grounds(told | {f"{oid} {_DIRECT}"})
        elif by_attribute or (memberships and _is_inherited_by_attribute(connection)):
            found[oid] = Grounds(told | memberships | (attributes or frozenset()), attributes is not None)
        else:
            found[oid] = Grounds(told | memberships)
    return found


def memberships(connection: psycopg.Connection, role: str) -> Grounds:
    """What a service role rests on that the role has by membership, or as a superuser."""
    held = _read(connection, _MEMBERSHIPS, role)
    row = connection.execute(_IS_SUPERUSER, [role]).fetchone()
    if row is None or not row[0]:
        return Grounds(held)
    attributes = _attributes(connection, role)
    return Grounds(held | (attributes or frozenset()), attributes is not None)


def _is_inherited_by_attribute(connection: psycopg.Connection) -> bool:
    return connection.info.server_version < _INHERITED_BY_MEMBERSHIP


def _attributes(connection: psycopg.Connection, role: str) -> frozenset[str] | None:
    """None where the gateway's own role may not look."""
    try:
        return _read(connection, _ATTRIBUTES, role)
    except psycopg.errors.InsufficientPrivilege:
        return None


def _read(connection: psycopg.Connection, question: str, role: str) -> frozenset[str]:
    return frozenset(row for (row,) in connection.execute(question.encode(), [role]))
