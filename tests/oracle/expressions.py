"""Generated expressions: what an application may write over the columns in its sight."""

import re
from collections.abc import Sequence

from msgspec import Struct

from tests.oracle.dice import Dice
from tests.oracle.values import BPCHAR, DATES, ENUM, FREE_NUMERIC, TEXTS, TIMES, UUID

COMPARABLE = (
    "int",
    "numeric",
    "text",
    "bool",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
    "enum",
    "bpchar",
    "float",
    "free",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
_MARK = re.compile(r"⟪(\d+)⟫")
FIELDS = ("year", "month", "day", "dow", "isodow", "doy", "week", "quarter", "isoyear")
AGES = ("300 days", "2 years", "30 years")
INTERVALS = ("1 day", "1 month", "90 minutes", "-36 hours", "1 year 2 months", "0.5 seconds")


class Expression(Struct, frozen=True):
    """SQL and the family of its type. `exact`: equal values print alike; `steady`: it prints alike each time."""

    sql: str
    family: str
    exact: bool = True
    steady: bool = True
    orderable: bool = True


class Parameters:
    """The values handed in with one query: marks while it is made, $1, $2 … for those that it came to use."""

    def __init__(self) -> None:
        self._values: list[str] = []

    def add(self, value: str) -> str:
        self._values.append(value)
        return f"⟪{len(self._values) - 1}⟫"

    def used(self, sql: str) -> list[int]:
        return list(dict.fromkeys(int(mark) for mark in _MARK.findall(sql)))

    def values(self, used: list[int]) -> tuple[str, ...]:
        return tuple(self._values[number] for number in used)

    def numbered(self, sql: str, used: list[int]) -> str:
        return _MARK.sub(lambda mark: f"${used.index(int(mark[1])) + 1}", sql)


class Expressions:
    """Expressions over `columns`; with `parameters`, some values are handed in."""

    def __init__(self, dice: Dice, columns: Sequence[Expression], parameters: Parameters | None = None) -> None:
        self._dice = dice
        self.columns = tuple(columns)
        self._parameters = parameters

    def any(self, depth: int = 2) -> Expression:
        """Any value: often a plain column, of any type."""
        if self._dice.chance(45) or depth == 0:
            return self._dice.one(self.columns)
        return self.of(
            self._family(
                ("int", "int", "text", "text", "numeric", "bool", "date", "timestamp", "timestamptz", "float")
            ),
            depth,
        )

    def of(self, family: str, depth: int = 2) -> Expression:
        """A value of a family that expressions are made for."""
        if depth <= 0 or self._dice.chance(30):
            return self._leaf(family)
        if self._dice.chance(12):
            return self._conditional(family, depth)
        made = {
            "int": self._int,
            "numeric": self._numeric,
            "text": self._text,
            "bool": self._bool,
            "date": self._date,
            "timestamp": self._timestamp,
            "timestamptz": self._timestamptz,
            "float": self._float,
        }.get(family)
        return self._leaf(family) if made is None else made(depth - 1)

    def _family(self, families: Sequence[str]) -> str:
        """One of these, mostly one that a column in sight has: constants alone say little."""
        present = [family for family in families if self.column(family) is not None]
        return self._dice.one(present) if present and self._dice.chance(85) else self._dice.one(families)

    def condition(self, depth: int = 2) -> str:
        return self.of("bool", depth).sql

    def column(self, family: str) -> Expression | None:
        fitting = [column for column in self.columns if column.family == family]
        return self._dice.one(fitting) if fitting else None

    def literal(self, family: str) -> str:
        dice = self._dice
        if family == "int":
            return str(dice.number(-3, 12))
        if family == "numeric":
            return dice.one(("1.5", "0.25", "10.00", "2", "-1.10", "100.005"))
        if family == "text":
            return dice.one(TEXTS)
        if family == "bool":
            return dice.one(("true", "false"))
        if family == "float":
            return dice.one(("1.5::float8", "'0.1'::float8", "2::double precision"))
        if family == "date":
            return f"DATE {dice.one(DATES)}"
        if family == "timestamp":
            return f"TIMESTAMP {dice.one(TIMES)}"
        if family == "timestamptz":
            return f"TIMESTAMPTZ {dice.one(TIMES)[:-1]}+00'"
        kind = {"uuid": UUID, "enum": ENUM, "bpchar": BPCHAR, "free": FREE_NUMERIC}.get(family)
        return "NULL" if kind is None else dice.one(kind.common)

    def other(self, family: str, depth: int, than: Expression) -> Expression:
        """A value to stand beside another one: what is compared with itself says little."""
        made = self.of(family, depth)
        if made.sql != than.sql:
            return made
        return Expression(self.literal(family), family, exact=family not in ("numeric", "float"))

    def _leaf(self, family: str) -> Expression:
        column = self.column(family)
        if column is not None and self._dice.chance(90):
            return column
        if family == "bool" and self._dice.chance(90):
            return Expression(self._comparison(0), "bool")
        return Expression(self.literal(family), family, exact=family not in ("numeric", "float"))

    def _conditional(self, family: str, depth: int) -> Expression:
        one = self.of(family, depth - 1)
        other = self.other(family, depth - 1, one)
        exact = one.exact and other.exact and family not in ("numeric", "float")
        form = self._dice.number(1, 5)
        if form <= 2:
            sql = f"CASE WHEN {self.condition(1)} THEN {one.sql} ELSE {other.sql} END"
        elif form == 3:
            sql = f"coalesce({one.sql}, {other.sql})"
        elif form == 4:
            sql = f"nullif({one.sql}, {other.sql})"
        else:
            sql = f"{self._dice.one(('greatest', 'least'))}({one.sql}, {other.sql})"
        return Expression(sql, family, exact=exact, steady=one.steady and other.steady)

    def _int(self, depth: int) -> Expression:
        d, a = self._dice, self.of("int", depth)
        b = self.other("int", depth, a)
        forms = [
            f"({a.sql} + {b.sql})",
            f"({a.sql} - {b.sql})",
            f"({a.sql} * {d.number(-2, 5)})",
            f"({a.sql} / {d.one((2, 3, -4, 7))})",
            f"({a.sql} / nullif({b.sql}, 0))",
            f"({a.sql} % {d.one((2, 3, 5))})",
            f"mod({a.sql}, nullif({b.sql}, 0))",
            f"abs({a.sql})",
            f"(- {a.sql})",
            f"length({self.of('text', depth).sql})",
            f"strpos({self.of('text', depth).sql}, {self._leaf('text').sql})",
            f"extract({d.one(FIELDS)} FROM {self.of('date', depth).sql})::int",
            f"extract({d.one(('hour', 'minute', 'dow'))} FROM {self.of('timestamp', depth).sql})::integer",
            f"({self.of('date', 0).sql} - {self.of('date', depth).sql})",
            f"round({self.of('numeric', depth).sql})::int",
            f"({self.of('numeric', depth).sql})::int",
            f"({self.of('bool', depth).sql})::int",
            f"({a.sql})::bigint",
            f"sign({a.sql})::int",
            f"octet_length({self.of('text', depth).sql})",
        ]
        if d.chance(15):
            forms += [f"({a.sql} & {d.number(0, 7)})", f"width_bucket({a.sql}, 0, 10, 5)"]
        return Expression(d.one(forms), "int")

    def _numeric(self, depth: int) -> Expression:
        d, a = self._dice, self.of("numeric", depth)
        b = self.other("numeric", depth, a)
        forms = [
            f"({a.sql} / {b.sql})",
            f"({a.sql} + {b.sql})",
            f"({a.sql} - {b.sql})",
            f"({a.sql} * {b.sql})",
            f"({a.sql} * {self.of('int', depth).sql})",
            f"({a.sql} / {d.one(('3', '1.5', '-7', '100'))})",
            f"({a.sql} / nullif({b.sql}, 0))",
            f"round({a.sql}, {d.number(-1, 3)})",
            f"round({a.sql})",
            f"trunc({a.sql}, 1)",
            f"ceil({a.sql})",
            f"floor({a.sql})",
            f"abs({a.sql})",
            f"({a.sql} % 1.5)",
            f"({self.of('int', depth).sql})::numeric(12,2)",
            f"({a.sql})::numeric(14,1)",
            f"({self.of('int', depth).sql} * 0.19)",
            f"extract(epoch FROM {self.of('timestamp', depth).sql})",
        ]
        sql = d.one(forms)
        return Expression(sql, "numeric", exact="::numeric(1" in sql)

    def _text(self, depth: int) -> Expression:
        d, a = self._dice, self.of("text", depth)
        b = self.other("text", depth, a)
        n = self.of("int", 0)
        separator, fill = d.one(("' '", "'-'", "'b'")), d.one(("'*'", "'xy'", "''"))
        forms = [
            f"({a.sql} || {b.sql})",
            f"({a.sql} || {n.sql})",
            f"lower({a.sql})",
            f"upper({a.sql})",
            f"substring({a.sql} from {d.number(-1, 3)} for {d.number(0, 3)})",
            f"substr({a.sql}, {d.number(0, 3)})",
            f"left({a.sql}, {d.number(-2, 3)})",
            f"right({a.sql}, {d.number(-2, 3)})",
            f"trim({a.sql})",
            f"{d.one(('ltrim', 'rtrim', 'btrim'))}({a.sql}, 'a ')",
            f"replace({a.sql}, 'a', {self._leaf('text').sql})",
            f"split_part({a.sql}, {separator}, {d.one((1, 2, -1))})",
            f"lpad({a.sql}, {d.number(0, 6)}, {fill})",
            f"rpad({a.sql}, {d.number(0, 6)})",
            f"concat({a.sql}, {self.any(0).sql}, 'c')",
            f"concat_ws('-', {a.sql}, {b.sql})",
            f"({n.sql})::text",
            f"({self.of('bool', depth).sql})::text",
            f"({self.of('date', depth).sql})::text",
            f"({self.of('numeric', depth).sql})::text",
            f"({self.of('timestamp', depth).sql})::varchar",
            f"initcap({a.sql})",
            f"reverse({a.sql})",
            f"repeat({a.sql}, {d.number(-1, 3)})",
            f"md5({a.sql})",
            f"translate({a.sql}, 'ab', 'x')",
            f"to_char({self.of('date', depth).sql}, '{d.one(('YYYY-MM-DD', 'IYYY-IW', 'Mon DD', 'FMDay'))}')",
            f"to_char({self.of('numeric', depth).sql}, 'FM9990.00')",
            f"({a.sql})::varchar({d.number(1, 4)})",
        ]
        others = [column.sql for column in self.columns if column.family in ("uuid", "enum", "bpchar", "bytes", "ints")]
        if others:
            forms += [f"({d.one(others)})::text"] * 2
        if (jsonb := self.column("jsonb")) is not None:
            forms += [f"({jsonb.sql} ->> 'a')"] * 3
        return Expression(d.one(forms), "text")

    def _bool(self, depth: int) -> Expression:
        d = self._dice
        form = d.number(1, 20)
        if form <= 8:
            sql = self._comparison(depth)
        elif form <= 10:
            sql = f"({self.condition(depth)} {d.one(('AND', 'OR'))} {self.condition(depth)})"
        elif form == 11:
            sql = f"(NOT {self.condition(depth)})"
        elif form <= 13:
            sql = f"({self.any(depth).sql} IS {d.one(('', 'NOT '))}NULL)"
        elif form == 14:
            sql = f"({self.condition(depth)} IS {d.one(('TRUE', 'NOT TRUE', 'FALSE', 'UNKNOWN'))})"
        elif form == 15:
            family = self._family(("int", "text", "date"))
            values = ", ".join(
                [self.literal(family) for _ in range(d.number(1, 4))] + (["NULL"] if d.chance(10) else [])
            )
            sql = f"({self.of(family, depth).sql} {d.one(('IN', 'NOT IN'))} ({values}))"
        elif form == 16:
            family = self._family(("int", "numeric", "date", "text"))
            a = self.of(family, depth)
            b, c = (self.other(family, depth, a).sql for _ in range(2))
            sql = f"({a.sql} {d.one(('', 'NOT '))}BETWEEN {b} AND {c})"
        elif form == 17:
            pattern = d.one(("'a%'", "'%b'", "'%a%'", "'_'", "'a\\%b'", "''", "'%Ä%'"))
            sql = f"({self.of('text', depth).sql} {d.one(('LIKE', 'NOT LIKE', 'ILIKE', 'LIKE', '~~'))} {pattern})"
        elif form == 18:
            plain = [column for column in self.columns if column.orderable] or [self.of("int", 0)]
            a = d.one(plain)
            same = [column.sql for column in plain if column.family == a.family and column.sql != a.sql]
            sql = f"({a.sql} IS {d.one(('', 'NOT '))}DISTINCT FROM {d.one(same or [self.literal(a.family)])})"
        elif form == 19:
            sql = d.one(
                (
                    f"({self.of('text', depth).sql} ~ '{d.one(('^a', 'b$', '[A-Z]', '.'))}')",
                    f"({self._pair()} = {self._pair()})",
                    f"({self.of('int', depth).sql} = ANY (ARRAY[1, 2, 3]))",
                    f"starts_with({self.of('text', depth).sql}, 'a')",
                    f"({self.of('timestamptz', 0).sql} > now() - interval '{d.one(AGES)}')",
                    f"({self.of('date', 0).sql} <= current_date)",
                )
            )
        else:
            return self._leaf("bool")
        return Expression(sql, "bool")

    def _pair(self) -> str:
        return f"({self.of('int', 0).sql}, {self.of('text', 0).sql})"

    def _comparison(self, depth: int) -> str:
        d = self._dice
        family = self._family(COMPARABLE)
        operator = d.one(("=", "<>", "<", "<=", ">", ">=", "="))
        if self._parameters is not None and d.chance(35) and (value := self._parameter_value(family)) is not None:
            column = self.column(family)
            if column is not None:
                return f"({column.sql} {operator} {self._parameters.add(value)})"
        left = self.of(family, depth)
        right = self.literal(family) if d.chance(35) else self.other(family, depth, left).sql
        return f"({left.sql} {operator} {right})"

    def _parameter_value(self, family: str) -> str | None:
        d = self._dice
        if family in ("int", "numeric"):
            return str(d.number(-2, 10))
        pool = {
            "text": TEXTS,
            "date": DATES,
            "timestamp": TIMES,
            "bool": ("'t'", "'f'"),
            "enum": ("'ok'", "'sad'"),
        }.get(family)
        return None if pool is None else d.one(pool)[1:-1].replace("''", "'")

    def _date(self, depth: int) -> Expression:
        a = self.of("date", depth)
        forms = (
            f"({a.sql} + {self._dice.number(-40, 400)})",
            f"({a.sql} - {self._dice.number(1, 31)})",
            f"({self.of('timestamp', depth).sql})::date",
            f"date_trunc('{self._dice.one(('month', 'week', 'quarter', 'year'))}', {a.sql})::date",
            f"({a.sql} + interval '1 month')::date",
            f"({self.of('timestamptz', 0).sql} AT TIME ZONE '{self._dice.one(ZONES)}')::date",
        )
        return Expression(self._dice.one(forms), "date")

    def _timestamp(self, depth: int) -> Expression:
        a = self.of("timestamp", depth)
        forms = (
            f"({a.sql} + interval '{self._dice.one(INTERVALS)}')",
            f"({a.sql} - interval '{self._dice.one(INTERVALS)}')",
            f"date_trunc('{self._dice.one(('hour', 'day', 'week', 'month', 'minute', 'second', 'year'))}', {a.sql})",
            f"({self.of('date', depth).sql})::timestamp",
            f"({self.of('timestamptz', 0).sql} AT TIME ZONE '{self._dice.one(ZONES)}')",
            f"({self.of('date', depth).sql} + interval '1 day')",
        )
        return Expression(self._dice.one(forms), "timestamp")

    def _timestamptz(self, depth: int) -> Expression:
        a = self.of("timestamptz", depth)
        forms = (
            f"({a.sql} + interval '{self._dice.one(INTERVALS)}')",
            f"({a.sql} - interval '{self._dice.one(INTERVALS)}')",
            f"date_trunc('{self._dice.one(('hour', 'day', 'month', 'week'))}', {a.sql})",
            f"({self.of('timestamp', depth).sql} AT TIME ZONE '{self._dice.one(ZONES)}')",
            f"({self.of('timestamp', 0).sql})::timestamptz",
        )
        return Expression(self._dice.one(forms), "timestamptz")

    def _float(self, depth: int) -> Expression:
        a = self.of("float", depth)
        forms = (
            f"({a.sql} + {self.of('float', 0).sql})",
            f"({a.sql} * 2)",
            f"({a.sql} / 3)",
            f"({self.of('int', depth).sql})::float8",
            f"abs({a.sql})",
            f"round({a.sql})",
            f"floor({a.sql})",
            f"({self.of('numeric', 0).sql})::float8",
            f"sqrt(abs({a.sql}))",
        )
        return Expression(self._dice.one(forms), "float", exact=False)
