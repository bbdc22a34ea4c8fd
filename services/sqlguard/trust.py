"""Whose code a query may call: that of superusers, of ourselves, and of owners that the operator trusts.

It is the second line: a query runs inside its subscriber's role (entrance.py), where code of anybody has no more rights
than he. What is found here is refused all the same, before PostgreSQL plans the query, since planning runs functions.
"""

import re
from collections.abc import Sequence
from importlib.resources import files

import psycopg

from services.sqlguard.bodies import refuse_effects_inside
from services.sqlguard.effects import Function, refuse_effects
from services.sqlguard.entrance import Inside
from services.sqlguard.parse_tree import Parsed
from services.sqlguard.refusal import Refused

_FUNCTIONS = """
SELECT n.nspname, p.proname, p.provolatile,
       p.proargtypes::pg_catalog.oid[] && array['cstring'::regtype::oid, 'internal'::regtype::oid],
       p.oid, p.oid::pg_catalog.regprocedure::pg_catalog.text
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
_SEARCHED = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))::pg_catalog.text"
_SESSION_USER = 12
# PostgreSQL cuts longer names, in bytes.
NAME_BYTES = 63
_WORD = re.compile(r"\w+")


def examine(
    inside: Inside, sql: str, parameter_types: Sequence[int] = (), *, trusted_owners: Sequence[str] = ()
) -> Parsed:
    """What PostgreSQL reads in a statement; Refused if it is no pure SELECT, has effects, or runs untrusted code.

    PostgreSQL's own complaints are raised as psycopg.Error.
    """
    service = inside.service
    if inside.is_superuser:
        _refuse_literals(service, sql, trusted_owners)
    parsed = inside.parse(sql, parameter_types)

    def called(body: Parsed) -> list[Function]:
        _refuse_untrusted(inside, body, trusted_owners)
        return functions_of(service, body)

    functions = functions_of(service, parsed)
    if any(one.is_foreign and one.volatility == "v" for one in functions):
        _refuse_untrusted(inside, parsed, trusted_owners)
    for function in functions:
        refuse_effects_inside(inside, function, called)
    if _SESSION_USER in parsed.value_functions:
        refuse_effects(Function(schema="pg_catalog", name="session_user", volatility="s"))
    _refuse_untrusted(inside, parsed, trusted_owners)
    return parsed


def _refuse_literals(connection: psycopg.Connection, sql: str, trusted_owners: Sequence[str]) -> None:
    """A literal of a row, array or range is made while a superuser's statement is read; checks of domains run then.

    Where such checks are untrusted code, statements that name anything to do with them are not read at all. Checks of
    a domain by itself wait until the statement is run.
    """
    dangers = connection.execute(
        (files(__package__) / "literals.sql").read_bytes(), {"trusted": list(trusted_owners)}
    ).fetchall()
    words = _words(sql) if dangers else set()
    for name, domain, owner in dangers:
        own = _words(name)
        if words & own or (not own and name in sql) or 'u&"' in sql.lower():
            raise Refused(
                "42501", f"domain {domain} checks its values by a function of {owner}, who is not trusted here"
            )


def _words(text: str) -> set[str]:
    """As names would be cut and folded, so that none is missed."""
    return {word.encode()[:NAME_BYTES].decode(errors="ignore") for word in _WORD.findall(text.lower())}


def functions_of(connection: psycopg.Connection, parsed: Parsed) -> list[Function]:
    """What the query calls, its views and the role's policies included."""
    rows = connection.execute(_FUNCTIONS, [list(parsed.functions), list(parsed.operators)]).fetchall()
    return [
        Function(schema=schema, name=name, volatility=volatility, is_inner=is_inner, oid=oid, signature=signature)
        for schema, name, volatility, is_inner, oid, signature in rows
    ]


def _refuse_untrusted(inside: Inside, parsed: Parsed, trusted_owners: Sequence[str]) -> None:
    if not parsed.user_objects:
        return
    reached = inside.service.execute(
        (files(__package__) / "trust.sql").read_bytes(),
        {"named": list(parsed.user_objects), "trusted": list(trusted_owners)},
    ).fetchall()
    for signature, owner, _ in reached:
        if owner is not None:
            raise Refused("42501", f"function {signature} is owned by {owner}, whose functions are not trusted here")
    swayed = next((signature for signature, _, is_swayed in reached if is_swayed), None)
    if swayed is None:
        return
    schemas = [name.decode() for (name,) in inside.ask(_SEARCHED, columns=1) if name is not None]
    shared = inside.service.execute(_SHARED_SCHEMAS, [list(trusted_owners), schemas]).fetchone()
    if shared is not None:
        raise Refused(
            "42501",
            f"what function {swayed} does depends on the search_path, which has schema {shared[0]} "
            "with functions or views of owners who are not trusted: set the function's own search_path",
        )
