"""Generated queries: SELECTs of every form that the product must keep, with what of their answers is certain."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tests.oracle.aggregates import aggregate, windowed
from tests.oracle.case import Check, Question
from tests.oracle.dice import Dice
from tests.oracle.expressions import Expression, Expressions, Parameters
from tests.oracle.schemas import Relation

SETTINGS = (
    {"TimeZone": "Europe/Berlin"},
    {"TimeZone": "America/New_York"},
    {"TimeZone": "Asia/Kolkata"},
    {"DateStyle": "SQL, DMY"},
    {"DateStyle": "German"},
    {"IntervalStyle": "iso_8601"},
    {"bytea_output": "escape"},
    {"extra_float_digits": "0"},
)
FORMS = (
    "plain",
    "plain",
    "plain",
    "joined",
    "joined",
    "grouped",
    "grouped",
    "grouped",
    "total",
    "distinct",
    "set",
    "set",
    "window",
    "window",
)


class Select(Struct, frozen=True):
    """A SELECT with the names and families of its columns; `key`: outputs that no two rows share."""

    sql: str
    outputs: tuple[Expression, ...]
    key: tuple[str, ...] = ()


class Sight(Struct, frozen=True):
    """A FROM clause and what is seen through it."""

    sql: str
    columns: tuple[Expression, ...]
    key: tuple[Expression, ...] = ()


class Queries:
    """Queries over the relations of one schema."""

    def __init__(self, dice: Dice, relations: Sequence[Relation]) -> None:
        self._dice = dice
        self._relations = tuple(relations)
        self._parameters = Parameters()
        self._aliases = 0

    def question(self) -> Question:
        self._parameters, self._aliases = Parameters(), 0
        dice = self._dice
        if dice.chance(30):
            select = self._plain(_seen(dice.one(self._relations), self._alias()), 0)
            return self._asked(select.sql, self._check(select), "", {})
        with_prefix, select = self._with() if dice.chance(15) else ("", self._select(2 if dice.chance(40) else 1))
        sql, check = with_prefix + select.sql, self._check(select)
        if dice.chance(40):
            sql, check = self._ordered(with_prefix + select.sql, select, check)
        condition = ""
        if dice.chance(10) and not check.among:
            outer = Expressions(dice, [c for c in select.outputs if c.steady] or select.outputs)
            condition = outer.condition(1)
        settings = dice.one(SETTINGS) if dice.chance(15) else {}
        return self._asked(sql, check, condition, settings)

    def _asked(self, sql: str, check: Check, condition: str, settings: dict[str, str]) -> Question:
        used = self._parameters.used(sql)
        check = replace(check, among=self._parameters.numbered(check.among, used))
        return Question(self._parameters.numbered(sql, used), self._parameters.values(used), condition, settings, check)

    def _check(self, select: Select) -> Check:
        return Check(approximate=tuple(at for at, output in enumerate(select.outputs) if not output.steady))

    def _ordered(self, sql: str, select: Select, check: Check) -> tuple[str, Check]:
        """The query with an ORDER BY and perhaps a LIMIT."""
        dice = self._dice
        fit = [at for at, output in enumerate(select.outputs) if output.orderable and output.steady]
        if not fit:
            return sql, check
        certain = len(fit) == len(select.outputs) and all(output.exact for output in select.outputs)
        chosen = dice.some(fit, 1, len(fit)) if dice.chance(50) else fit
        if dice.chance(50) and set(select.key) <= {select.outputs[at].sql for at in fit} and select.key:
            chosen = chosen + [at for at in fit if select.outputs[at].sql in select.key and at not in chosen]
        keyed = bool(select.key) and set(select.key) <= {select.outputs[at].sql for at in chosen}
        certain = keyed or (certain and len(chosen) == len(fit))
        directions = ("", "", " DESC", " ASC", " NULLS FIRST", " DESC NULLS LAST")
        named = dice.chance(40)
        order = ", ".join(f"{select.outputs[at].sql if named else at + 1}{dice.one(directions)}" for at in chosen)
        ordered = f"{sql} ORDER BY {order}"
        # Values that are equal and print differently may stand in either place.
        settled = tuple(at for at in chosen if select.outputs[at].exact)
        if keyed or len(settled) < len(chosen):
            settled = tuple(at for at in range(len(select.outputs)) if at not in check.approximate) if keyed else ()
        elif certain:
            settled = tuple(range(len(select.outputs)))
        if not dice.chance(45):
            return ordered, Check(approximate=check.approximate, ordered_by=settled)
        limit = f" LIMIT {dice.number(0, 6)}" + (f" OFFSET {dice.number(0, 3)}" if dice.chance(30) else "")
        among = "" if certain else sql
        return ordered + limit, Check(approximate=check.approximate, among=among, ordered_by=settled)

    def _with(self) -> tuple[str, Select]:
        dice = self._dice
        if dice.chance(25):
            start = dice.number(1, 3)
            sql = (
                f"WITH RECURSIVE r (n, t) AS (SELECT {start}, 'x'::text UNION ALL SELECT r.n + 1, r.t || b.k::text "
                f"FROM r JOIN t1 b ON b.id = r.n WHERE r.n < 8) "
            )
            columns = (Expression("r.n", "int"), Expression("r.t", "text"))
            return sql, self._plain(Sight("r", columns), 1)
        inner = self._select(1)
        materialized = dice.one(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
        prefix = f"WITH w AS {materialized}({inner.sql}) "
        columns = tuple(_through(output, "w") for output in inner.outputs)
        sight = Sight("w", columns, tuple(_through(Expression(name, "int"), "w") for name in inner.key))
        if dice.chance(40):
            return prefix, self._grouped(sight, 1)
        return prefix, self._plain(sight, 1)

    def _select(self, depth: int) -> Select:
        form = self._dice.one(FORMS)
        if form == "set":
            return self._set_operation(depth)
        sight = self._joined(depth) if form == "joined" or self._dice.chance(25) else self._from(depth)
        if form == "grouped":
            return self._grouped(sight, depth)
        if form == "total":
            return self._grouped(sight, depth, total=True)
        if form == "distinct":
            return self._distinct(sight, depth)
        if form == "window":
            return self._window(sight, depth)
        return self._plain(sight, depth)

    def _alias(self) -> str:
        self._aliases += 1
        return f"a{self._aliases}"

    def _from(self, depth: int) -> Sight:
        dice, alias = self._dice, self._alias()
        if depth > 1 and dice.chance(18):
            inner = self._select(depth - 1)
            steady = [output for output in inner.outputs if output.steady]
            if steady:
                key = tuple(Expression(f"{alias}.{name}", "int") for name in inner.key)
                return Sight(f"({inner.sql}) AS {alias}", tuple(_through(output, alias) for output in steady), key)
        if dice.chance(3):
            rows = ", ".join(f"({number}, '{letter}')" for number, letter in zip(range(1, 4), "abc", strict=True))
            return Sight(
                f"(VALUES {rows}) AS {alias} (n, t)",
                (Expression(f"{alias}.n", "int"), Expression(f"{alias}.t", "text")),
            )
        relation = dice.one(self._relations)
        return _seen(relation, alias)

    def _joined(self, depth: int) -> Sight:
        dice, left = self._dice, self._from(depth)
        for _ in range(dice.number(1, 2)):
            right = self._from(1)
            kind = dice.one(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","))
            columns = (*left.columns, *right.columns)
            if kind in ("CROSS JOIN", ","):
                sql = f"{left.sql} {kind} {right.sql}" if kind != "," else f"{left.sql} CROSS JOIN {right.sql}"
            else:
                sql = f"{left.sql} {kind} {right.sql} ON {self._join_condition(left, right, kind)}"
            key = (*left.key, *right.key) if left.key and right.key else ()
            left = Sight(sql, columns, key)
        return left

    def _join_condition(self, left: Sight, right: Sight, kind: str) -> str:
        dice = self._dice
        pairs = [
            (one.sql, other.sql)
            for one in left.columns
            for other in right.columns
            if one.family == other.family and one.family in ("int", "text", "date", "uuid", "numeric")
        ]
        integers = [
            (one.sql, other.sql)
            for one in left.columns
            for other in right.columns
            if one.family == other.family == "int"
        ]
        if not pairs:
            return "true" if kind != "FULL JOIN" else "1 = 1"
        one, other = dice.one(integers) if integers and dice.chance(80) else dice.one(pairs)
        condition = f"{one} = {other}"
        if kind != "FULL JOIN" and dice.chance(25):
            condition += f" AND {Expressions(dice, (*left.columns, *right.columns)).condition(1)}"
        return condition

    def _where(self, sight: Sight, depth: int, of_hundred: int = 65) -> str:
        dice = self._dice
        if not dice.chance(of_hundred):
            return ""
        condition = Expressions(dice, sight.columns, self._parameters).condition(2 if dice.chance(40) else 1)
        if depth > 0 and dice.chance(18):
            condition = f"{condition} {dice.one(('AND', 'AND', 'OR'))} {self._subquery_condition(sight)}"
        return f" WHERE {condition}"

    def _subquery_condition(self, sight: Sight) -> str:
        dice, inner = self._dice, _seen(self._dice.one(self._relations), self._alias())
        inside = Expressions(dice, inner.columns)
        pairs = [
            (one.sql, other.sql)
            for one in sight.columns
            for other in inner.columns
            if one.family == other.family and one.family in ("int", "text", "date")
        ]
        integers = [column.sql for column in inner.columns if column.family == "int"]
        if not pairs or not integers:
            return f"EXISTS (SELECT 1 FROM {inner.sql} WHERE {inside.condition(1)})"
        one, other = dice.one(pairs)
        condition = inside.condition(1)
        return dice.one(
            (
                f"{dice.one(('', 'NOT '))}EXISTS (SELECT 1 FROM {inner.sql} WHERE {one} = {other} AND {condition})",
                f"{one} {dice.one(('IN', 'NOT IN'))} (SELECT {other} FROM {inner.sql} WHERE {condition})",
                f"{one} = ANY (SELECT {other} FROM {inner.sql})",
                f"{one} {dice.one(('<', '>='))} ALL (SELECT {other} FROM {inner.sql} WHERE {other} IS NOT NULL)",
                f"(SELECT count(*) FROM {inner.sql} WHERE {one} = {other}) > {dice.number(0, 2)}",
                f"{dice.number(0, 5)} <= (SELECT max({dice.one(integers)}) FROM {inner.sql} WHERE {other} = {one})",
            )
        )

    def _outputs(self, sight: Sight, least: int, most: int) -> list[Expression]:
        made = Expressions(self._dice, sight.columns, None)
        return [made.any(2 if self._dice.chance(40) else 1) for _ in range(self._dice.number(least, most))]

    def _plain(self, sight: Sight, depth: int) -> Select:
        dice, outputs = self._dice, self._outputs(sight, 1, 4)
        names = [f"o{number}" for number in range(1, len(outputs) + 1)]
        key: tuple[str, ...] = ()
        if sight.key and dice.chance(60):
            key = tuple(f"key{number}" for number in range(1, len(sight.key) + 1))
            outputs, names = [*sight.key, *outputs], [*key, *names]
        if depth > 1 and dice.chance(10):
            inner = _seen(dice.one(self._relations), self._alias())
            one = next((column.sql for column in sight.columns if column.family == "int"), "1")
            other = next((column.sql for column in inner.columns if column.family == "int"), "1")
            taken = dice.one(("count(*)", f"sum({other})", f"min({other})"))
            outputs.append(Expression(f"(SELECT {taken} FROM {inner.sql} WHERE {other} = {one})", "int"))
            names.append("scalar")
        return _select(outputs, names, sight.sql + self._where(sight, depth), key)

    def _distinct(self, sight: Sight, depth: int) -> Select:
        outputs = [output for output in self._outputs(sight, 1, 3) if output.exact and output.orderable]
        outputs = outputs or [column for column in sight.columns if column.exact and column.orderable][:2]
        outputs = outputs or [Expression("count(*)", "int")]
        names = [f"o{number}" for number in range(1, len(outputs) + 1)]
        made = _select(outputs, names, sight.sql + self._where(sight, depth), tuple(names))
        return Select(made.sql.replace("SELECT ", "SELECT DISTINCT ", 1), made.outputs, ())

    def _grouped(self, sight: Sight, depth: int, *, total: bool = False) -> Select:
        dice, made = self._dice, Expressions(self._dice, sight.columns)
        groups: list[Expression] = []
        if not total:
            wanted = [made.any(1) for _ in range(dice.number(1, 2))]
            groups = [group for group in wanted if group.exact and group.orderable and not group.sql.isdigit()]
            groups = groups or [column for column in sight.columns if column.exact and column.orderable][:1]
            # A literal is an ordinal or no group at all.
            groups = [group for group in groups if any(column.sql in group.sql for column in sight.columns)]
        aggregates = [aggregate(dice, made) for _ in range(dice.number(1, 3))]
        names = [f"g{number}" for number in range(1, len(groups) + 1)] + [
            f"o{number}" for number in range(1, len(aggregates) + 1)
        ]
        tail = sight.sql + self._where(sight, depth)
        if groups:
            by = dice.one(
                (", ".join(group.sql for group in groups), ", ".join(str(n) for n in range(1, len(groups) + 1)))
            )
            tail += f" GROUP BY {by}"
        if dice.chance(20):
            tail += f" HAVING {dice.one(('count(*) > 1', 'count(*) >= 2', 'sum(1) < 4', 'count(*) IS NOT NULL'))}"
        return _select([*groups, *aggregates], names, tail, tuple(names[: len(groups)]) if groups else ())

    def _window(self, sight: Sight, depth: int) -> Select:
        dice, outputs = self._dice, self._outputs(sight, 1, 2)
        made = [windowed(dice, Expressions(dice, sight.columns), sight.key) for _ in range(dice.number(1, 2))]
        names = [f"o{number}" for number in range(1, len(outputs) + 1)] + [
            f"w{number}" for number in range(1, len(made) + 1)
        ]
        return _select([*outputs, *made], names, sight.sql + self._where(sight, depth, 40))

    def _set_operation(self, depth: int) -> Select:
        dice, one, other = self._dice, self._from(1), self._from(1)
        families = [dice.one(("int", "text", "date", "bool", "timestamp")) for _ in range(dice.number(1, 3))]
        halves = []
        for sight in (one, other):
            made = Expressions(dice, sight.columns, self._parameters)
            outputs = [made.of(family, 1) for family in families]
            names = [f"o{number}" for number in range(1, len(outputs) + 1)]
            halves.append(_select(outputs, names, sight.sql + self._where(sight, depth)))
        operator = dice.one(("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
        return Select(f"{halves[0].sql} {operator} {halves[1].sql}", halves[0].outputs)


def _seen(relation: Relation, alias: str) -> Sight:
    columns = tuple(
        Expression(
            f"{alias}.{column.name}", column.kind.family, exact=column.kind.exact, orderable=column.kind.orderable
        )
        for column in relation.columns
    )
    # No constraint keeps a child from repeating its parent's key, but nothing here does so.
    key = tuple(column for column in columns if column.sql.split(".")[1] in relation.key)
    return Sight(f"{relation.name} AS {alias}", columns, key)


def _select(outputs: Sequence[Expression], names: Sequence[str], tail: str, key: tuple[str, ...] = ()) -> Select:
    listed = ", ".join(f"{output.sql} AS {name}" for output, name in zip(outputs, names, strict=True))
    seen = tuple(
        Expression(name, output.family, exact=output.exact, steady=output.steady, orderable=output.orderable)
        for output, name in zip(outputs, names, strict=True)
    )
    return Select(f"SELECT {listed} FROM {tail}", seen, key)


def _through(output: Expression, alias: str) -> Expression:
    return Expression(
        f"{alias}.{output.sql}", output.family, exact=output.exact, steady=output.steady, orderable=output.orderable
    )
