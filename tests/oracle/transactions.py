"""Generated transactions: what applications do to tables, with what goes wrong on the way."""

from tests.oracle.case import Step
from tests.oracle.dice import Dice
from tests.oracle.schemas import Relation, Schema, insert

# Keys above are the long transaction's own, so that nobody waits for its locks.
LONG_KEYS = 500


def transactions(dice: Dice, schema: Schema, count: int) -> tuple[Step, ...]:
    """`count` transactions that end, in order; a long one may run beside them and end somewhere in between."""
    steps: list[Step] = []
    number = 100
    opens = dice.number(0, count - 2) if count > 2 and dice.chance(60) else -1
    closes = dice.number(opens + 1, count - 1) if opens >= 0 else -1
    for at in range(count):
        if at == opens:
            table = dice.one(schema.tables)
            steps.append(Step((insert(table, dice, range(LONG_KEYS, LONG_KEYS + 3)),), "", "long"))
        if at == closes:
            steps.append(Step(_long_end(dice, schema), "ROLLBACK" if dice.chance(20) else "COMMIT", "long"))
        statements = []
        for _ in range(dice.number(1, 4)):
            statements += _statements(dice, dice.one(schema.tables), number)
            number += 5
        if dice.chance(15):
            inner = _statements(dice, dice.one(schema.tables), number)
            statements += ["SAVEPOINT s", *inner, dice.one(("ROLLBACK TO s", "RELEASE s"))]
            number += 5
        steps.append(Step(tuple(statements), "ROLLBACK" if dice.chance(8) else "COMMIT"))
    return tuple(steps)


def _long_end(dice: Dice, schema: Schema) -> tuple[str, ...]:
    table = dice.one(schema.tables)
    return (insert(table, dice, range(LONG_KEYS + 10, LONG_KEYS + 12)),)


def _statements(dice: Dice, table: Relation, number: int) -> list[str]:
    free = [column for column in table.columns if column.name not in table.key and not column.generated]
    column = dice.one(free)
    where = _where(dice, table)
    form = dice.number(1, 24)
    if form <= 7:
        return [insert(table, dice, range(number, number + dice.number(1, 4)))]
    if form <= 14:
        others = [one for one in free if one is not column]
        more = f", {(two := dice.one(others)).name} = {two.kind.value(dice)}" if others and dice.chance(30) else ""
        return [f"UPDATE {table.name} SET {column.name} = {column.kind.value(dice)}{more}{where}"]
    if form == 15:
        return [f"UPDATE {table.name} SET {column.name} = {column.name}{where}"]
    if form == 16:
        return [
            f"UPDATE {table.name} SET k = k + 1{where}"
            if any(c.name == "k" for c in free)
            else f"DELETE FROM {table.name}{where}"
        ]
    if form <= 20:
        return [f"DELETE FROM {table.name}{where}"]
    if form == 21 and table.key and table.columns[0].kind.family == "int":
        # Keys move, some onto one that was just given up.
        return [f"UPDATE {table.name} SET {table.key[0]} = {table.key[0]} + 1000{where}"]
    if form == 22 and not table.key:
        names = ", ".join(one.name for one in table.columns if not one.generated)
        return [f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {table.name}{where} LIMIT 4"]
    if form == 23 and dice.chance(30):
        return [f"TRUNCATE {table.name}", insert(table, dice, range(number, number + 4))]
    return [insert(table, dice, range(number, number + 2)), f"DELETE FROM {table.name} WHERE {column.name} IS NULL"]


def _where(dice: Dice, table: Relation) -> str:
    """Few rows mostly; never those of the long transaction, which would be waited for."""
    if table.key:
        name = table.key[0]
        low = dice.number(1, 12)
        return f" WHERE {name} BETWEEN {low} AND {low + dice.number(0, 3)}"
    first = table.columns[0].name
    return dice.one(
        (f" WHERE {first} = {dice.number(0, 3)}", f" WHERE {first} IS NULL", f" WHERE {first} > 2 AND {first} < 8")
    )
