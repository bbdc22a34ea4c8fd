"""Generated queries of mixed types in odd places, over the tables of tests/exact.

Where tests/oracle/queries.py writes what applications write, this writes what they seldom do: types that PostgreSQL
coerces, intervals, collations, errors and subqueries, in every place that an expression can stand in.
"""

from tests.oracle.case import Question
from tests.oracle.dice import Dice

NUMBERS = ("t.x", "t.id", "t.n", "s.amt", "s.alt", "s.free", "z.p", "z.q", "t.x::int8", "t.id::int2")
NUMERALS = ("0", "1", "2", "0.5", "1.50", "-1", "2147483647", "-2147483648", "3.000", "NULL")
TEXTS = ("t.c", "t.v", "t.t", "t.nick", "t.name", "w.one", "w.other", "w.plain", "u.z")
LETTERS = ("'ab'", "'ab '", "'x'", "''", "'a%'", "'B'", "'é'", "NULL", "'ab'::text", "'ab   '::char(5)")
REALS = ("t.f4", "t.f8", "f.f4", "f.f8")
MOMENTS = ("t.ts", "t.ts2", "timestamp '2024-01-01 12:00'")
SPANS = ("(t.ts2 - t.ts)", "(t.ts - t.ts2)", "interval '1 day'", "interval '36 hours'", "(t.ts2 - t.ts2)")
PATTERNS = ("YYYY-MM-DD", "SSSS", "DDDD", "MISSSS", "HH24:MI:SS", "DDD")
ALIASES = {"t": "t", "s": "sums", "z": "z", "w": "two", "u": "u", "f": "floats", "k": "k"}
KINDS = ("number", "text", "real", "span", "bool")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class OddQueries:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def question(self) -> Question:
        made = {
            "plain": self._plain,
            "grouped": self._grouped,
            "union": self._union,
            "window": self._window,
            "inner": self._inner,
            "joined": self._joined,
        }
        return Question(made[self._dice.one((*made, "plain", "plain", "grouped"))]())

    def value(self, depth: int) -> str:
        return self.of(self._dice.one(KINDS), depth)

    def of(self, kind: str, depth: int) -> str:
        if kind == "bool":
            return self.condition(depth)
        if depth > 0 and self._dice.chance(55):
            return self._chosen(kind, depth - 1)
        if depth > 0 and self._dice.chance(60):
            return {"number": self._number, "text": self._text, "real": self._real, "span": self._span}[kind](depth - 1)
        return self._leaf(kind)

    def _leaf(self, kind: str) -> str:
        columns, literals = {
            "number": (NUMBERS, NUMERALS),
            "text": (TEXTS, LETTERS),
            "real": (REALS, ("0.1", "0", "1.5::float8", "0.2::real", "'-0'::float8")),
            "span": (SPANS, SPANS),
        }[kind]
        return self._dice.one(columns if self._dice.chance(75) else literals)

    def _chosen(self, kind: str, depth: int) -> str:
        d = self._dice
        one, other = self.of(kind, depth), self.of(kind, depth)
        return d.one(
            (
                f"CASE WHEN {self.condition(depth)} THEN {one} ELSE {other} END",
                f"coalesce({one}, {other})",
                f"nullif({one}, {other})",
                f"{d.one(('greatest', 'least'))}({one}, {other})",
            )
        )

    def _number(self, depth: int) -> str:
        d, one, other = self._dice, self.of("number", depth), self.of("number", 0)
        return d.one(
            (
                f"({one} {d.one('+-*')} {other})",
                f"({one} / {other})",
                f"({one} / nullif({other}, 0))",
                f"round(({one})::numeric, 1)",
                f"({one})::int",
                f"{d.one(('length', 'octet_length'))}({self._leaf('text')})",
                f"(- {one})",
            )
        )

    def _text(self, depth: int) -> str:
        d, one = self._dice, self.of("text", depth)
        return d.one(
            (
                f"({one} || {self._leaf('text')})",
                f"lower({one})",
                f"upper({one})",
                f"to_char({d.one(MOMENTS)}, '{d.one(PATTERNS)}')",
                f"({self.of('number', depth)})::text",
                f"({one})::{d.one(('text', 'varchar(3)', 'char(3)'))}",
                f"concat({one}, {self._leaf('text')})",
            )
        )

    def _real(self, depth: int) -> str:
        one = self.of("real", depth)
        return self._dice.one((f"({one} + 1)", f"abs({one})", f"(- {one})", f"({one} * {self._leaf('real')})"))

    def _span(self, depth: int) -> str:
        return self._leaf("span") if depth < 1 else self._chosen("span", depth - 1)

    def condition(self, depth: int) -> str:
        d = self._dice
        kind = d.one(("number", "text", "real", "span"))
        if depth <= 0:
            return f"({self._leaf(kind)} {d.one(COMPARISONS)} {self._leaf(kind)})"
        one, other = self.of(kind, depth - 1), self.of(kind, depth - 1)
        return d.one(
            (
                f"({one} {d.one(COMPARISONS)} {other})",
                f"({one} IN ({other}, {self._leaf(kind)}))",
                f"({one} {d.one(('= ANY', '<> ALL'))} (ARRAY[{self._leaf(kind)}, {self._leaf(kind)}]))",
                f"({one} IS {d.one(('', 'NOT '))}NULL)",
                f"({one} IS {d.one(('', 'NOT '))}DISTINCT FROM {other})",
                f"({self._membership()})",
                f"(({self._membership()}) {d.one(('IS NULL', 'IS NOT TRUE', 'IS NOT FALSE', '= t.a', 'IS UNKNOWN'))})",
                f"coalesce({self.condition(depth - 1)}, {d.one(('true', 'false', 't.a'))})",
                f"({self.condition(depth - 1)} {d.one(('AND', 'OR'))} {self.condition(depth - 1)})",
                f"(NOT {self.condition(depth - 1)})",
                f"({self.of('text', 0)} {d.one(('LIKE', 'ILIKE'))} {d.one(LETTERS)}{d.one(('', ESCAPED))})",
            )
        )

    def _membership(self) -> str:
        return self._dice.one(
            (
                "t.x IN (SELECT y FROM u)",
                "t.x NOT IN (SELECT y FROM u)",
                "t.x NOT IN (SELECT y FROM k)",
                "t.c IN (SELECT z FROM u)",
                "t.v IN (SELECT c FROM t)",
                "(t.x, t.id) IN (SELECT y, tid FROM u)",
                "t.f4 = ANY (SELECT f8 FROM floats)",
                "t.x <> ALL (SELECT q FROM z)",
                "EXISTS (SELECT 1 FROM u WHERE u.tid = t.id)",
            )
        )

    def _tables(self, *parts: str) -> str:
        """FROM with the tables that these parts read; t is always among them."""
        read = [alias for alias in ALIASES if alias == "t" or any(f"{alias}." in part for part in parts)]
        sql = "t"
        for alias in read[1:]:
            column = {"u": "tid", "f": "g", "k": "tid"}.get(alias, "id")
            kind = self._dice.one(("JOIN", "LEFT JOIN"))
            sql += f" {kind} {ALIASES[alias]} AS {alias} ON {alias}.{column} = t.id"
        return sql

    def _where(self) -> str:
        return self.condition(2) if self._dice.chance(60) else "t.id > 0"

    def _plain(self) -> str:
        outputs = [self.value(2) for _ in range(self._dice.number(1, 2))]
        where = self._where()
        return f"SELECT t.id, {', '.join(outputs)} FROM {self._tables(*outputs, where)} WHERE {where}"

    def _aggregate(self) -> str:
        d = self._dice
        kind = d.one(("number", "number", "text", "real", "span"))
        argument = self.of(kind, 2)
        names = {"number": ("sum", "avg", "max", "min", "count", "sum"), "text": ("max", "min", "count")}
        name = d.one(names.get(kind, ("max", "min", "count")))
        return f"{name}({d.one(('', '', 'DISTINCT '))}{argument})"

    def _grouped(self) -> str:
        aggregates = [self._aggregate() for _ in range(self._dice.number(1, 2))]
        where = self._where()
        group = self._dice.one(("t.a", "t.c", "t.x", self.of("text", 1), ""))
        having = self._dice.one(("", "", " HAVING count(*) IN (SELECT y FROM u)", " HAVING max(t.x / 2) IS NOT NULL"))
        source = f"FROM {self._tables(*aggregates, where, group)} WHERE {where}"
        if not group:
            return f"SELECT {', '.join(aggregates)} {source}{having}"
        return f"SELECT {group}, {', '.join(aggregates)} {source} GROUP BY {group}{having}"

    def _union(self) -> str:
        d = self._dice
        kind = d.one(("number", "text", "real", "span"))
        one, other = self.of(kind, 1), self.of(kind, 1)
        operator = d.one(("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT"))
        return f"SELECT {one} FROM {self._tables(one)} {operator} SELECT {other} FROM {self._tables(other)}"

    def _window(self) -> str:
        d = self._dice
        argument = self.of(d.one(("number", "text", "span")), 1)
        name = d.one(("first_value", "lag", "max", "count", "sum"))
        over = "OVER (ORDER BY t.id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
        # More rows than one for an id would leave the order to chance.
        if any(f"{alias}." in argument for alias in ("u", "f", "k")):
            argument = "t.x"
        return f"SELECT t.id, {name}({argument}) {over} FROM {self._tables(argument)}"

    def _inner(self) -> str:
        value, where = self.value(2), self._where()
        inside = f"SELECT t.id AS i, {value} AS o FROM {self._tables(value, where)} WHERE {where}"
        return self._dice.one(
            (
                f"SELECT r.i FROM ({inside}) AS r",
                f"SELECT count(*) FROM ({inside}) AS r",
                f"SELECT r.i, r.o FROM ({inside}) AS r WHERE r.o IS NOT NULL",
                f"WITH r AS MATERIALIZED ({inside}) SELECT r.i FROM r",
                f"SELECT count(r.o) FROM ({inside}) AS r",
            )
        )

    def _joined(self) -> str:
        kind = self._dice.one(("text", "number", "real"))
        one, other = (self._leaf(kind) for _ in range(2))
        right = other.replace("t.", "b.") if other.startswith("t.") else "b.id"
        left = one if one.startswith("t.") else "t.id"
        return (
            f"SELECT t.id, b.id FROM t {self._dice.one(('JOIN', 'LEFT JOIN', 'FULL JOIN'))} t AS b ON {left} = {right}"
        )


ESCAPED = " ESCAPE 'X'"
