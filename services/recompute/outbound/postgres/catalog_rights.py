"""Checks in the catalog the rights that PostgreSQL's tree requires: the tree itself came in a message."""

from collections.abc import Sequence

import psycopg

from services.recompute.core.tree.facts import RequiredPermission, required_permissions
from services.recompute.core.tree.nodes import NotUnderstood
from services.recompute.core.tree.reading import read_tree
from services.sqlguard.refusal import Refused

# As PostgreSQL checks them when a query begins: the relation's SELECT, or that of each column; of no column in
# particular (count(*)) that of any. Attribute 0 is the whole row, and takes every column.
_MISSING = """
SELECT c.relname FROM pg_class c WHERE c.oid = %(relation)s AND NOT (
    has_table_privilege(%(user)s::oid, c.oid, 'SELECT')
    OR (cardinality(%(columns)s::int2[]) = 0 AND has_any_column_privilege(%(user)s::oid, c.oid, 'SELECT'))
    OR (cardinality(%(columns)s::int2[]) > 0 AND NOT EXISTS (
        SELECT FROM pg_attribute a
        WHERE a.attrelid = c.oid AND NOT a.attisdropped
          AND (a.attnum = ANY (%(columns)s::int2[]) OR (0 = ANY (%(columns)s::int2[]) AND a.attnum > 0))
          AND NOT has_column_privilege(%(user)s::oid, c.oid, a.attnum, 'SELECT'))))
"""


def refuse_missing_rights(service: psycopg.Connection, rewritten: str, role_oid: int) -> None:
    """Refused if the role, or a view's owner for what the view reads, may not read what the tree reads."""
    tree = read_tree(rewritten)
    if isinstance(tree, NotUnderstood):
        # Only PostgreSQL itself runs such a query, and checks it.
        return
    for name in _missing(service, required_permissions(tree), role_oid):
        raise Refused("42501", f"permission denied for table {name}")


def _missing(service: psycopg.Connection, asked: Sequence[RequiredPermission], role_oid: int) -> list[str]:
    found = []
    for permission in dict.fromkeys(asked):
        given = {
            "relation": permission.relation,
            "user": permission.check_as_user or role_oid,
            "columns": sorted(permission.columns),
        }
        found += [str(name) for (name,) in service.execute(_MISSING, given)]
    return found
