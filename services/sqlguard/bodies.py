"""Functions that are volatile only because nobody declared them otherwise: what their bodies call decides.

PostgreSQL takes each function for volatile that does not say what it is. One in plain SQL whose body is a single SELECT
that calls nothing with effects has none itself.
"""

from collections.abc import Callable, Sequence
from itertools import zip_longest

import psycopg

from services.sqlguard.effects import Function, refuse_effects
from services.sqlguard.entrance import Inside
from services.sqlguard.parse_tree import Parsed
from services.sqlguard.refusal import Refused

# Functions that call functions that call functions.
DEEPEST = 4
_READABLE = """
SELECT p.prosrc, p.proargtypes::pg_catalog.oid[], coalesce(p.proargnames[:p.pronargs], '{}'), p.proname,
       ARRAY(SELECT pg_catalog.format_type(t, NULL) FROM pg_catalog.unnest(p.proargtypes) t)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE p.oid = %s AND l.lanname = 'sql' AND p.prokind = 'f' AND p.prosqlbody IS NULL AND p.proconfig IS NULL
  AND NOT p.prosecdef AND p.provariadic = 0
"""
# The functions that a body calls, if all of it may be trusted.
Called = Callable[[Parsed], Sequence[Function]]


def refuse_effects_inside(inside: Inside, function: Function, called: Called, level: int = 0) -> None:
    """Refused if calling it may have effects, or calls what may. A body is read only after its owner is trusted."""
    body = None
    if function.is_foreign and function.volatility == "v" and level < DEEPEST:
        body = _read(inside, function)
    if body is None:
        refuse_effects(function)
        return
    for one in called(body):
        refuse_effects_inside(inside, one, called, level + 1)


def _read(inside: Inside, function: Function) -> Parsed | None:
    """The body, with the names of the arguments as columns around it; None if it cannot be read so."""
    row = inside.service.execute(_READABLE, [function.oid]).fetchone()
    if row is None:
        return None
    body, types, names, own_name, type_names = row
    arguments = ", ".join(
        f"(${place})::{type_name} AS {_quoted(name or f'unnamed {place}')}"
        for place, (type_name, name) in enumerate(zip_longest(type_names, names, fillvalue=""), start=1)
        if type_name
    )
    statement = body.strip().removesuffix(";").strip()
    if arguments:
        given = f"(SELECT {arguments}) AS {_quoted(own_name)}"
        statement = f"SELECT result.* FROM {given} CROSS JOIN LATERAL (\n{statement}\n) AS result"
    try:
        with inside.attempted():
            return inside.parse(statement, types)
    except (psycopg.Error, Refused):
        return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
