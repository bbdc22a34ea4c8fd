"""Queries that put expressions of mixed types into every position, at depth: over the tables of tests/exact.

The other generator (queries.py) writes what applications write; this one writes what nobody would, so that a rule of
types, collations, NULLs or errors that is missing shows soon.
"""

from collections.abc import Callable
from random import Random

from tests.oracle.case import Question

# Columns by type and table; the tables of tests/exact/setup.sql.
_COLUMNS = {
    "t": {
        "bool": ("a",),
        "int": ("x", "id"),
        "float": ("f4", "f8"),
        "numeric": ("n",),
        "text": ("c", "v", "t", "nick", "name"),
        "timestamp": ("ts", "ts2"),
    },
    "sums": {"bool": ("paid",), "int": ("id",), "numeric": ("amt", "alt", "free")},
    "z": {"int": ("id", "q"), "numeric": ("p",)},
    "two": {"int": ("id",), "text": ("one", "other", "plain")},
    "floats": {"int": ("g",), "float": ("f8", "f4")},
}
_LITERALS = {
    "bool": ("true", "false", "NULL::bool"),
    "int": ("0", "1", "2", "-2147483648", "NULL::int", "2147483647"),
    "float": ("0.1::real", "0::float8", "'-0'::float8", "'NaN'::float8", "1.5"),
    "numeric": ("0", "1.0", "2.50", "0.1", "0.5", "NULL::numeric"),
    "text": ("'ab'", "'ab '", "''", "'a%b'", "'B'", "'é'", "'1.5'", "'2024-01-01'", "NULL"),
    "timestamp": ("timestamp '2024-01-01 00:00'", "timestamp '2024-01-31 12:00'"),
    "interval": ("interval '1 day'", "interval '1 mon'", "interval '25:00'"),
}
_SUBQUERIES = {
    "int": ("SELECT y FROM u", "SELECT tid FROM u", "SELECT y FROM k"),
    "text": ("SELECT z FROM u", "SELECT v FROM t"),
}


class Composer:
    """Expressions over one table of a query."""

    def __init__(self, random: Random, table: str) -> None:
        self._random, self.table = random, table
        self._columns = _COLUMNS[table]

    def types(self) -> list[str]:
        return [*self._columns, *(["interval"] if "timestamp" in self._columns else [])]

    def any(self, depth: int) -> str:
        return self.of(self._random.choice(self.types()), depth)

    def of(self, kind: str, depth: int) -> str:
        """An expression of that type; leaves at depth 0."""
        pick = self._random.random()
        if depth <= 0 or pick < 0.15:
            return self._leaf(kind)
        if pick < 0.45:
            return self._choice(kind, depth - 1)
        made: Callable[[int], str] = getattr(self, f"_{kind}")
        return made(depth - 1)

    def _leaf(self, kind: str) -> str:
        columns = self._columns.get(kind, ())
        if kind == "interval" and "timestamp" in self._columns:
            return "(ts2 - ts)"
        if columns and self._random.random() < 0.75:
            return self._random.choice(columns)
        return self._random.choice(_LITERALS[kind])

    def _choice(self, kind: str, depth: int) -> str:
        one, other = self.of(kind, depth), self.of(kind, depth)
        condition = self.of("bool", depth)
        return self._random.choice(
            (
                f"coalesce({one}, {other})",
                f"CASE WHEN {condition} THEN {one} ELSE {other} END",
                f"CASE WHEN {condition} THEN {one} END",
                f"nullif({one}, {other})",
            )
        )

    def _bool(self, depth: int) -> str:
        random, kind = self._random, self._random.choice(self.types())
        one, other = self.of(kind, depth), self.of(kind, depth)
        forms = [
            f"({one} {random.choice(('=', '<', '<=', '<>', '>'))} {other})",
            f"({one} IS {random.choice(('', 'NOT '))}NULL)",
            f"({one} IS {random.choice(('', 'NOT '))}DISTINCT FROM {other})",
            f"({one} IN ({other}, {self.of(kind, 0)}))",
            f"({self.of('bool', depth)} {random.choice(('AND', 'OR'))} {self.of('bool', depth)})",
            f"(NOT {self.of('bool', depth)})",
            f"({self.of('bool', depth)} IS {random.choice(('TRUE', 'NOT FALSE', 'UNKNOWN', 'NOT TRUE'))})",
            f"({self.of('bool', depth)} = {self.of('bool', depth)})",
        ]
        inner = random.choice(sorted(_SUBQUERIES))
        if inner in self._columns:
            rows = random.choice(_SUBQUERIES[inner])
            forms += [f"({self.of(inner, depth)} {random.choice(('IN', 'NOT IN'))} ({rows}))"] * 3
        if "text" in self._columns:
            pattern = random.choice(("'a%'", "'%b'", "'_b%'", "'A!%%' ESCAPE '!'", "'AxB%' ESCAPE 'x'", "'%a%b%'"))
            forms += [f"({self.of('text', 0)} {random.choice(('LIKE', 'ILIKE'))} {pattern})"] * 3
            forms += [f"({self._leaf('text')} {random.choice(('=', '<', '<>'))} {self._leaf('text')})"] * 3
        if self.table == "t":
            forms.append(f"(c {random.choice(('=', '<', '<>'))} {random.choice(('v', 't', 'nick'))})")
            escaped = random.choice(("'Ax%' ESCAPE 'x'", "'A!%B' ESCAPE '!'"))
            forms.append(f"({random.choice(('t', 'v'))} ILIKE {escaped})")
        if "float" in self._columns:
            forms.append(f"({random.choice(self._columns['float'])} IN (0.1, 0.2, 1.5))")
        return random.choice(forms)

    def _int(self, depth: int) -> str:
        forms = [
            f"({self.of('int', depth)} {self._random.choice('+-*/%')} {self.of('int', 0)})",
            f"(- {self.of('int', depth)})",
            f"({self.of('int', 0)} + -2147483648)",
            f"(nullif({self.of('int', 0)}, 0.5) / 2)",
        ]
        if "text" in self._columns:
            forms += [f"length({self.of('text', depth)})", f"octet_length({self.of('text', depth)})"]
        return self._random.choice(forms)

    def _float(self, depth: int) -> str:
        return f"({self.of('float', depth)} {self._random.choice('+-*/')} {self.of('float', 0)})"

    def _numeric(self, depth: int) -> str:
        return self._random.choice(
            (
                f"({self.of('numeric', depth)} {self._random.choice('+-*/')} {self.of('numeric', 0)})",
                f"round({self.of('numeric', depth)}, 1)",
                f"abs({self.of('numeric', depth)})",
            )
        )

    def _text(self, depth: int) -> str:
        return self._random.choice(
            (
                f"lower({self.of('text', depth)})",
                f"upper({self.of('text', depth)})",
                f"({self.of('text', depth)} || {self.of('text', 0)})",
                f"btrim({self.of('text', depth)})",
                f'({self.of("text", 0)} COLLATE "C")',
                f"{self.of('int', 0)}::text",
            )
        )

    def _timestamp(self, depth: int) -> str:
        return f"({self.of('timestamp', depth)} + {self._random.choice(_LITERALS['interval'])})"

    def _interval(self, depth: int) -> str:
        return f"({self.of('timestamp', depth)} - {self.of('timestamp', depth)})"


def question(random: Random) -> Question:
    """One query; the shallow ones show a single fault best."""
    depth = random.choice((1, 1, 2))
    table = random.choice(("t", "t", "t", "sums", "z", "two", "floats"))
    made = Composer(random, table)
    order = "g" if table == "floats" else "id"
    kind = random.choice(made.types())
    value = made.of(kind, depth)
    condition = made.of("bool", depth)
    aggregate = random.choice(("count", "min", "max", "sum", "avg", "sum(DISTINCT", "avg(DISTINCT", "count(DISTINCT"))
    number = made.of(
        random.choice([one for one in ("int", "numeric", "float", "interval") if one in made.types()]), depth
    )
    call = f"{aggregate} {number})" if "(" in aggregate else f"{aggregate}({number})"
    other = made.of(kind, depth)
    form = random.choice(
        (
            f"SELECT {order}, {value} FROM {table}",
            f"SELECT {order}, {value}, {made.any(depth)} FROM {table} WHERE {condition}",
            f"SELECT {order} FROM {table} WHERE {condition}",
            f"SELECT {value}, count(*) FROM {table} GROUP BY 1",
            f"SELECT {call} FROM {table}",
            f"SELECT {call} FROM {table} WHERE {condition}",
            f"SELECT {call}, count(*) FROM {table} GROUP BY {made.of('bool', 1)}",
            f"SELECT count({value}) FROM {table}",
            f"SELECT {order}, {call} OVER (PARTITION BY {made.of('bool', 0)}) FROM {table}".replace("DISTINCT ", ""),
            f"SELECT {order}, rank() OVER (ORDER BY {value}) FROM {table}",
            f"SELECT {value} FROM {table} UNION {random.choice(('', 'ALL '))}SELECT {other} FROM {table}",
            f"SELECT o.{order} FROM {table} o JOIN (SELECT {value} AS w FROM {table}) i ON i.w = {_joined(made, kind)}",
            f"SELECT s.w FROM (SELECT {value} AS w, {made.any(1)} AS unused FROM {table}) s",
            f"SELECT max({value}) FROM {table} HAVING {call} IS NOT NULL",
            f"SELECT DISTINCT {value} FROM {table}",
            f"SELECT {order}, {value} FROM {table} ORDER BY {order} LIMIT 2",
        )
    )
    return Question(form)


def _joined(made: Composer, kind: str) -> str:
    columns = _COLUMNS[made.table].get(kind, ())
    return f"o.{columns[0]}" if columns else "(o.ts2 - o.ts)" if kind == "interval" else _LITERALS[kind][0]
