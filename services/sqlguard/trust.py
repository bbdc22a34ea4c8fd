"""Whose code may run on our connections: that of superusers, of ourselves, and of owners that the operator trusts.

A query runs with SET ROLE on a connection of ours, and a function that it calls could set the role back. So a query is
examined before PostgreSQL plans it, since planning runs functions already.
"""

import re
from collections.abc import Sequence
from importlib.resources import files

import psycopg

from services.chassis.effects import Function, refuse_effects
from services.chassis.parsed import Parsed, parse, set_local
from services.chassis.refusal import Refused

_FUNCTIONS = """
SELECT n.nspname, p.proname, p.provolatile,
       p.proargtypes::pg_catalog.oid[] && array['cstring'::regtype::oid, 'internal'::regtype::oid]
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE p.oid = ANY (%s::oid[] || ARRAY(SELECT o.oprcode::oid FROM pg_catalog.pg_operator o WHERE o.oid = ANY (%s)))
ORDER BY 1, 2, 3
"""
# Schemas in which somebody without trust has placed what a name may come to mean.
_SHARED_SCHEMAS = """
WITH owners AS (SELECT r.oid FROM pg_catalog.pg_roles r
                WHERE NOT (r.rolsuper OR r.rolname = session_user OR r.rolname = ANY (%s)))
SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname = ANY (%s) AND n.nspname <> 'pg_catalog' AND (
    EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN owners o ON o.oid = p.proowner WHERE p.pronamespace = n.oid)
    OR EXISTS (SELECT FROM pg_catalog.pg_operator p JOIN owners o ON o.oid = p.oprowner WHERE p.oprnamespace = n.oid)
    OR EXISTS (SELECT FROM pg_catalog.pg_class c JOIN owners o ON o.oid = c.relowner
               WHERE c.relnamespace = n.oid AND c.relkind = 'v'))
"""
_SESSION_USER = 12
# For our own statements between the subscribers': their operators must not be looked for in anybody's schemas, and to
# compile or to plan what reads a few rows of the catalog takes longer than to run it.
OURS = {"search_path": "pg_catalog", "jit": "off", "plan_cache_mode": "force_generic_plan"}
_WORD = re.compile(r"\w+")


def examine(
    connection: psycopg.Connection,
    sql: str,
    parameter_types: Sequence[int] = (),
    *,
    trusted_owners: Sequence[str] = (),
) -> Parsed:
    """What PostgreSQL reads in a statement; Refused if it is no pure SELECT, has effects, or runs untrusted code.

    Call it in a transaction in which the subscriber's role and search_path are set (locally), before the statement is
    planned in any way. PostgreSQL's own complaints are raised as psycopg.Error.
    """
    theirs, schemas = _theirs(connection)
    set_local(connection, OURS)
    _refuse_literals(connection, sql, trusted_owners)
    set_local(connection, theirs)
    parsed = parse(connection, sql, parameter_types)
    set_local(connection, OURS)
    for function in functions_of(connection, parsed):
        refuse_effects(function)
    if _SESSION_USER in parsed.value_functions:
        refuse_effects(Function(schema="pg_catalog", name="session_user", volatility="s"))
    _refuse_untrusted(connection, parsed, schemas, trusted_owners)
    set_local(connection, theirs)
    return parsed


def _theirs(connection: psycopg.Connection) -> tuple[dict[str, str], list[str]]:
    """The settings that OURS takes the place of, and the schemas that the search path means."""
    row = connection.execute(
        "SELECT pg_catalog.current_setting('search_path'), pg_catalog.current_setting('jit'), "
        "pg_catalog.current_setting('plan_cache_mode'), pg_catalog.current_schemas(false)"
    ).fetchone()
    assert row is not None
    return dict(zip(OURS, row[:-1], strict=True)), row[-1]


def _refuse_literals(connection: psycopg.Connection, sql: str, trusted_owners: Sequence[str]) -> None:
    """A literal of a row, array or range is made while the statement is read, and checks of domains in it run then.

    Where such checks are untrusted code, statements that name anything to do with them are not read at all. Checks of
    a domain by itself wait until the statement is run.
    """
    dangers = connection.execute(
        (files(__package__) / "literals.sql").read_bytes(), {"trusted": list(trusted_owners)}
    ).fetchall()
    words = set(_WORD.findall(sql.lower())) if dangers else set()
    for name, domain, owner in dangers:
        own = set(_WORD.findall(name.lower()))
        if words & own or (not own and name in sql) or 'u&"' in sql.lower():
            raise Refused(
                "42501", f"domain {domain} checks its values by a function of {owner}, who is not trusted here"
            )


def functions_of(connection: psycopg.Connection, parsed: Parsed) -> list[Function]:
    """What the query calls, its views and the role's policies included; to be called under OURS."""
    rows = connection.execute(_FUNCTIONS, [list(parsed.functions), list(parsed.operators)]).fetchall()
    return [
        Function(schema=schema, name=name, volatility=volatility, is_inner=is_inner)
        for schema, name, volatility, is_inner in rows
    ]


def _refuse_untrusted(
    connection: psycopg.Connection, parsed: Parsed, schemas: Sequence[str], trusted_owners: Sequence[str]
) -> None:
    if not parsed.user_objects:
        return
    reached = connection.execute(
        (files(__package__) / "trust.sql").read_bytes(),
        {"named": list(parsed.user_objects), "trusted": list(trusted_owners)},
    ).fetchall()
    for signature, owner, _ in reached:
        if owner is not None:
            raise Refused("42501", f"function {signature} is owned by {owner}, whose functions are not trusted here")
    swayed = next((signature for signature, _, is_swayed in reached if is_swayed), None)
    if swayed is None:
        return
    shared = connection.execute(_SHARED_SCHEMAS, [list(trusted_owners), list(schemas)]).fetchone()
    if shared is not None:
        raise Refused(
            "42501",
            f"what function {swayed} does depends on the search_path, which has schema {shared[0]} "
            "with functions or views of owners who are not trusted: set the function's own search_path",
        )
