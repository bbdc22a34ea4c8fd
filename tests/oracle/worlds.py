"""Small worlds: what is proven, over all tuples of edge values, in every position of a query."""

from collections.abc import Iterator, Sequence
from itertools import chain, product

import psycopg
from msgspec import Struct

from services.recompute.core.tree import proven
from tests.oracle.case import Question

# By type, each with the column's own spelling: typmods and collations make kinds of their own.
EDGES: dict[str, tuple[str, ...]] = {
    "bool": ("NULL", "true", "false"),
    "int2": ("NULL", "0", "1", "-1", "7", "-32768", "32767"),
    "int4": ("NULL", "0", "1", "-1", "3", "-2147483648", "2147483647"),
    "int8": ("NULL", "0", "1", "-1", "5", "-9223372036854775808", "9223372036854775807"),
    "numeric": ("NULL", "0", "0.00", "1", "1.0", "-1.5", "2.5", "0.005", "123456789012345678.9", "-0.10"),
    "numeric(10,2)": ("NULL", "0", "0.01", "-0.01", "1.50", "2.50", "-2.5", "99999999.99", "-99999999.99"),
    "float4": ("NULL", "0", "'-0'", "1", "-1.5", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1e-30", "16777216"),
    "float8": ("NULL", "0", "'-0'", "1", "-1.5", "0.1", "'NaN'", "'Infinity'", "'-Infinity'", "1e300", "1e-300", "2.5"),
    "text": (
        *("NULL", "''", "' '", "'a'", "'A'", "'b'", "'a '", "' a'", "'ab'", "'aab'", "'a%b'", "'a_b'", "'a\\b'", "'%'"),
        *("'ä'", "'a\u0308'", "'\U0001f600'", "'ß'", "'İ'", "'ﬁ'", "E'a\\nb'", "'1'", "'-1.50'", "' 7 '", "'true'"),
        *("'2024-02-29'", "'0001-01-01 BC'", "'infinity'"),
    ),
    'text COLLATE "C"': ("NULL", "''", "'a'", "'B'", "'ä'", "'\U0001f600'", "'Z'", "'a '"),
    "varchar(4)": ("NULL", "''", "' '", "'a'", "'A '", "'abcd'", "'ä'", "'a\u0308'", "'\U0001f600'", "'12'"),
    "bpchar(4)": ("NULL", "''", "' '", "'a'", "'a  '", "'abcd'", "'ä'", "'\U0001f600'", "'B'"),
    "date": (
        *("NULL", "'2000-01-01'", "'1999-12-31'", "'2024-02-29'", "'0001-01-01'", "'0044-03-15 BC'", "'infinity'"),
        *("'-infinity'", "'2024-12-30'", "'5874897-12-31'"),
    ),
    "timestamp": (
        *("NULL", "'2000-01-01 00:00'", "'1999-12-31 23:59:59.999999'", "'2024-02-29 12:30:00.5'", "'infinity'"),
        *("'-infinity'", "'0044-03-15 01:02:03 BC'", "'2024-03-31 02:30'", "'2024-10-27 02:30'", "'2024-12-30 24:00'"),
    ),
    "timestamptz": (
        *("NULL", "'2000-01-01 00:00+00'", "'2024-03-31 00:59:59.999999+00'", "'2024-03-31 01:00+00'", "'infinity'"),
        *("'-infinity'", "'0044-03-15 01:02:03+00 BC'", "'2024-10-27 00:30+00'", "'2024-10-27 01:30+00'"),
    ),
    "time": ("NULL", "'00:00'", "'23:59:59.999999'", "'24:00'", "'12:34:56.7'"),
    "interval": (
        "NULL",
        "'0'",
        "'1 day'",
        "'24:00'",
        "'1 mon'",
        "'-1 mon 1 day'",
        "'1 year 2 mons -3 days 04:05:06.7'",
    ),
    "uuid": ("NULL", "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
}
# Which spellings of columns stand for a type.
_KINDS = {
    "numeric": ("numeric", "numeric(10,2)"),
    "text": ("text", 'text COLLATE "C"'),
    "varchar": ("varchar(4)",),
    "bpchar": ("bpchar(4)",),
}
# Larger ones would fill the memory: repeat('a', 2147483647).
_FEW = {
    ("repeat", 1): ("NULL", "0", "1", "-1", "3"),
    ("lpad", 1): ("NULL", "0", "-1", "1", "6"),
    ("rpad", 1): ("NULL", "0", "5"),
}
# Arguments that only some texts are good for.
_WORDS = {
    "date_part": (
        "'year'",
        "'month'",
        "'day'",
        "'dow'",
        "'isodow'",
        "'doy'",
        "'week'",
        "'quarter'",
        "'epoch'",
        "'century'",
        "'hour'",
        "'second'",
    ),
    "extract": (
        "'year'",
        "'month'",
        "'day'",
        "'dow'",
        "'isoyear'",
        "'doy'",
        "'week'",
        "'quarter'",
        "'epoch'",
        "'decade'",
        "'minute'",
        "'microseconds'",
    ),
    "date_trunc": ("'year'", "'month'", "'day'", "'week'", "'quarter'", "'hour'", "'minute'", "'second'", "'century'"),
    "timezone": ("'UTC'", "'Europe/Berlin'", "'+02'", "'America/New_York'"),
    "to_char": (
        "'YYYY-MM-DD HH24:MI:SS'",
        "'DD.MM.YY'",
        "'Mon DD'",
        "'HH12:MI AM'",
        "'Day'",
        "'IYYY-IW'",
        "'MS US'",
        "'SSSS'",
        "'DDDD'",
        "'MISSSS'",
        "'Q WW'",
    ),
}
# An expression by the arguments' places, and the type of its value, told by PostgreSQL.
_CALLABLE = """
SELECT p.oid::int8, p.proname::text, ARRAY(SELECT t.typname::text FROM unnest(p.proargtypes) WITH ORDINALITY a(o, n)
       JOIN pg_type t ON t.oid = a.o ORDER BY a.n)
FROM pg_proc p WHERE p.oid = ANY (%s::oid[])
"""
_OPERATORS = """
SELECT o.oid::int8, o.oprname::text, ARRAY(SELECT t.typname::text FROM unnest(ARRAY[o.oprleft, o.oprright])
       WITH ORDINALITY a(o, n) JOIN pg_type t ON t.oid = a.o ORDER BY a.n)
FROM pg_operator o WHERE o.oid = ANY (%s::oid[])
"""
_TYPES = "SELECT oid::int8, typname::text FROM pg_type WHERE oid = ANY (%s::oid[])"


class Thing(Struct, frozen=True):
    """One proven thing with columns of these kinds: its expression is over a, b, c …"""

    name: str
    kinds: tuple[str, ...]
    expression: str
    edges: tuple[tuple[str, ...], ...]
    is_aggregate: bool = False


def things(connection: psycopg.Connection) -> list[Thing]:
    """All of them, in an order that is always the same."""
    made = [*_functions(connection), *_operators(connection), *_casts(connection), *_aggregates(connection)]
    return sorted(made, key=lambda one: (one.name, one.kinds, one.expression))


def not_covered(connection: psycopg.Connection) -> set[str]:
    """Proven things without a world: of types that have no edge values here."""
    listed = {
        f"{name} {oid}"
        for names in (proven.OPERATORS, proven.FUNCTIONS, proven.AGGREGATES)
        for name, oids in names.items()
        for oid in oids
    }
    return listed - {one.name.split(":")[0] for one in things(connection)}


def _rows(connection: psycopg.Connection, query: str, oids: Sequence[int]) -> list[tuple]:
    return sorted(connection.execute(query.encode(), [list(oids)]).fetchall())


def _kinds(types: Sequence[str]) -> Iterator[tuple[str, ...]]:
    found = [_KINDS.get(name, (name,) if name in EDGES else ()) for name in types]
    return product(*found)


def _functions(connection: psycopg.Connection) -> Iterator[Thing]:
    for oid, name, types in _rows(connection, _CALLABLE, list(chain(*proven.FUNCTIONS.values()))):
        for kinds in _kinds(types):
            edges = tuple(_edges_of(name, at, kind, kinds) for at, kind in enumerate(kinds))
            if kinds:
                arguments = ", ".join("abcde"[at] for at in range(len(kinds)))
                yield Thing(f"{name} {oid}", kinds, f'pg_catalog."{name}"({arguments})', edges)


def _edges_of(name: str, at: int, kind: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    if kind.startswith("text") and at == (1 if name == "to_char" else 0) and name in _WORDS:
        return _WORDS[name]
    edges = _FEW.get((name, at), EDGES[kind])
    return edges if len(kinds) < 3 else edges[:: 1 + len(edges) // 6]


def _operators(connection: psycopg.Connection) -> Iterator[Thing]:
    for oid, name, types in _rows(connection, _OPERATORS, list(chain(*proven.OPERATORS.values()))):
        for kinds in _kinds(types):
            expression = f"{name} a" if len(types) == 1 else f"a {name} b"
            if len(kinds) == len(types):
                yield Thing(f"{name} {oid}", kinds, f"({expression})", tuple(EDGES[kind] for kind in kinds))


def _casts(connection: psycopg.Connection) -> Iterator[Thing]:
    pairs = sorted(proven.BY_TEXT | proven.RELABELLED)
    names = dict(_rows(connection, _TYPES, list({oid for pair in pairs for oid in pair})))
    for source, target in pairs:
        for (kind,) in _kinds([names[source]]):
            for modified in (names[target], *(word for word in _KINDS.get(names[target], ()) if "(" in word)):
                yield Thing(f"cast {source} {target}", (kind,), f"a::{modified}", (EDGES[kind],))


def _aggregates(connection: psycopg.Connection) -> Iterator[Thing]:
    for oid, name, types in _rows(connection, _CALLABLE, list(chain(*proven.AGGREGATES.values()))):
        for kinds in _kinds(types):
            if len(kinds) == 1:
                yield Thing(f"{name} {oid}", kinds, f"{name}(a)", (EDGES[kinds[0]],), is_aggregate=True)


def make(connection: psycopg.Connection, thing: Thing, table: str) -> bool:
    """The world as a table: all tuples for which PostgreSQL has a value; with `_all`, also those on which it fails."""
    columns = ", ".join(f"{'abcde'[at]} {kind}" for at, kind in enumerate(thing.kinds))
    connection.execute(f"CREATE TABLE {table}_all (id int PRIMARY KEY, g int, {columns})".encode())
    rows = ", ".join(
        f"({number}, {number % 3}, {', '.join(values)})" for number, values in enumerate(product(*thing.edges))
    )
    connection.execute(f"INSERT INTO {table}_all VALUES {rows}".encode())
    connection.execute(f"CREATE TABLE {table} (LIKE {table}_all INCLUDING INDEXES)".encode())
    if thing.is_aggregate:
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table}_all".encode())
        return False
    connection.execute(
        f"""DO $$ DECLARE r record; BEGIN
        FOR r IN SELECT * FROM {table}_all LOOP BEGIN
            PERFORM {thing.expression} FROM (SELECT (r).*) one; INSERT INTO {table} SELECT r.*;
        EXCEPTION WHEN others THEN NULL; END; END LOOP; END $$""".encode()
    )
    ((failing,),) = connection.execute(
        f"SELECT (SELECT count(*) FROM {table}_all) - (SELECT count(*) FROM {table})".encode()
    ).fetchall()
    return bool(failing)


def questions(thing: Thing, table: str, *, fails: bool) -> list[Question]:
    """The thing in every position."""
    value = thing.expression
    if thing.is_aggregate:
        distinct = value.replace("(", "(DISTINCT ", 1)
        texts = [
            f"SELECT {value} FROM {table}",
            f"SELECT g, {value} FROM {table} GROUP BY g",
            f"SELECT {distinct} FROM {table}",
            f"SELECT {value} FILTER (WHERE g > 0) FROM {table}",
            f"SELECT {value} FROM {table} WHERE false",
            f"SELECT id, {value} OVER (PARTITION BY g) FROM {table}",
            f"SELECT id, {value} OVER (ORDER BY id) FROM {table}",
            f"SELECT g FROM {table} GROUP BY g HAVING {value} IS NOT NULL",
            f"SELECT (SELECT {value} FROM {table} i WHERE i.g = o.g) FROM {table} o",
            f"SELECT {value.replace('(a)', '(CASE WHEN g = 0 THEN a END)')} FROM {table}",
            f"SELECT {value} FROM {table} UNION ALL SELECT {value} FROM {table} WHERE g = 1",
        ]
        return [Question(text, name=thing.name) for text in texts]
    texts = [
        f"SELECT id, {value} FROM {table}",
        f"SELECT id FROM {table} WHERE {value} IS NULL",
        f"SELECT id, CASE WHEN g = 0 THEN {value} END FROM {table}",
        f"SELECT id, coalesce({value}, {value}) FROM {table}",
        f"SELECT x.id, y.id FROM (SELECT id, {value} AS v FROM {table}) x "
        f"JOIN (SELECT id, {value} AS v FROM {table} WHERE g = 0) y ON x.v = y.v",
        f"SELECT {value}, count(*) FROM {table} GROUP BY {value}",
        f"SELECT count({value}), min({value}), max({value}) FROM {table}",
        f"SELECT id, rank() OVER (ORDER BY {value}) FROM {table}",
        f"SELECT g FROM {table} GROUP BY g HAVING count({value}) > 2",
        f"SELECT id FROM {table} WHERE {value} IN (SELECT {value} FROM {table} WHERE g = 1)",
        f"SELECT {value} FROM {table} WHERE g = 0 UNION SELECT {value} FROM {table} WHERE g > 0",
        f"SELECT DISTINCT {value} FROM {table} ORDER BY 1",
    ]
    if fails:
        texts.append(f"SELECT id, {value} FROM {table}_all")
        texts.append(f"SELECT count({value}) FROM {table}_all")
        texts.append(f"SELECT id FROM {table}_all WHERE {value} IS NOT NULL")
    return [Question(text, name=thing.name) for text in texts]
