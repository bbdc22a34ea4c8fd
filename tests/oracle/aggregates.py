"""Generated aggregates and window functions, each with whether its value is certain."""

from tests.oracle.dice import Dice
from tests.oracle.expressions import Expression, Expressions


def aggregate(dice: Dice, made: Expressions) -> Expression:
    found = _aggregate(dice, made)
    if dice.chance(15) and not found.sql.startswith("round("):
        return Expression(
            f"{found.sql} FILTER (WHERE {made.condition(1)})",
            found.family,
            exact=found.exact,
            steady=found.steady,
            orderable=found.orderable,
        )
    return found


def _aggregate(dice: Dice, made: Expressions) -> Expression:
    form = dice.number(1, 18)
    if form <= 3:
        return Expression("count(*)", "int")
    if form <= 5:
        distinct = "DISTINCT " if dice.chance(40) else ""
        column = _exact(dice, made)
        return Expression(f"count({distinct}{column.sql})", "int")
    if form <= 8:
        return Expression(f"sum({made.of('int', 1).sql})", "int")
    if form <= 10:
        # A sum of zeros may be 0 or 0.00, by the rows that were there.
        return Expression(f"sum({made.of('numeric', 1).sql})", "numeric", exact=False)
    if form == 11:
        family = dice.one(("int", "numeric"))
        sql = f"avg({made.of(family, 1).sql})"
        return Expression(f"round({sql}, 2)" if dice.chance(40) else sql, "numeric", exact=False)
    if form <= 14:
        column = _exact(dice, made)
        if column.family in ("bool", "uuid", "enum", "bytes", "ints"):
            return Expression(f"count({column.sql})", "int")
        return Expression(f"{dice.one(('min', 'max'))}({column.sql})", column.family)
    if form == 15:
        return Expression(f"{dice.one(('bool_and', 'bool_or', 'every'))}({made.condition(1)})", "bool")
    if form == 16:
        column = made.column("text")
        text = made.of("text", 1).sql if column is None else column.sql
        distinct = "DISTINCT " if column is not None and dice.chance(30) else ""
        return Expression(f"string_agg({distinct}{text}, ',' ORDER BY {text})", "text")
    if form == 17:
        number = made.of("int", 1).sql
        return Expression(f"array_agg({number} ORDER BY {number} {dice.one(('ASC', 'DESC'))})", "ints")
    column = made.column("float")
    if column is None:
        return Expression("count(*)", "int")
    return Expression(f"{dice.one(('sum', 'avg'))}({column.sql})", "float", exact=False, steady=False)


def windowed(dice: Dice, made: Expressions, key: tuple[Expression, ...]) -> Expression:
    """With a key in sight the order is total, and what depends on the place of a row is certain."""
    partition = ""
    if dice.chance(50):
        partition = f"PARTITION BY {_exact(dice, made).sql} "
    column = _exact(dice, made)
    direction = dice.one(("", " DESC", " NULLS FIRST"))
    if key and dice.chance(60):
        order = ", ".join([f"{column.sql}{direction}", *(part.sql for part in key)])
        value = _exact(dice, made)
        frame = dice.one(
            (
                "",
                "",
                " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            )
        )
        number = made.of("int", 1).sql
        forms = (
            Expression("row_number()", "int"),
            Expression(f"lag({value.sql})", value.family),
            Expression(f"lead({value.sql}, 2)", value.family),
            Expression(f"ntile({dice.number(1, 4)})", "int"),
            Expression(f"first_value({value.sql})", value.family),
            Expression(f"last_value({value.sql})", value.family),
            Expression(f"sum({number})", "int"),
            Expression("count(*)", "int"),
        )
        chosen = dice.one(forms)
        return Expression(f"{chosen.sql} OVER ({partition}ORDER BY {order}{frame})", chosen.family)
    order = f"ORDER BY {column.sql}{direction}"
    forms = (
        Expression("rank()", "int"),
        Expression("dense_rank()", "int"),
        Expression("count(*)", "int"),
        Expression(f"sum({made.of('int', 1).sql})", "int"),
        Expression(f"min({made.of('int', 1).sql})", "int"),
        Expression("cume_dist()", "float", exact=False),
    )
    chosen = dice.one(forms)
    return Expression(f"{chosen.sql} OVER ({partition}{order})", chosen.family, exact=chosen.exact)


def _exact(dice: Dice, made: Expressions) -> Expression:
    fit = [column for column in made.columns if column.exact and column.orderable]
    return dice.one(fit) if fit and dice.chance(85) else made.of("int", 1)
