"""A case with results so large that they travel in parts, and transactions that change much of them."""

from random import Random

from tests.oracle.case import Case, Check, Question, Step
from tests.oracle.dice import Dice

ROWS, WIDTH = 3000, 700
QUESTIONS = (
    Question("SELECT id, n, kind, note FROM ledger"),
    Question("SELECT id, note FROM ledger WHERE n % 2 = 0"),
    Question("SELECT id, n, note FROM ledger", filter="n > 1500"),
    Question("SELECT kind, count(*), sum(n) FROM ledger GROUP BY kind"),
    Question("SELECT id, n, md5(note) FROM ledger WHERE kind < 5 ORDER BY id", check=Check(total_order=True)),
    Question("SELECT a.id, b.note FROM ledger a JOIN ledger b ON b.id = a.id + 1 WHERE a.kind = $1", ("3",)),
    Question("SELECT note, kind FROM ledger WHERE kind <> 2"),
)


def ledger(random: Random, steps: int) -> Case:
    dice = Dice(random)
    return Case(
        setup=(
            "CREATE TABLE ledger (id int PRIMARY KEY, n int NOT NULL, kind int NOT NULL, note text NOT NULL)",
            f"INSERT INTO ledger SELECT i, i, i % 7, {_note('i')} FROM generate_series(1, {ROWS}) i",
        ),
        steps=tuple(
            Step(tuple(_statement(dice, 10_000 * number + 1000 * part) for part in range(dice.number(1, 2))))
            for number in range(1, steps + 1)
        ),
        questions=QUESTIONS,
    )


def _statement(dice: Dice, fresh: int) -> str:
    some = f"id % 10 = {dice.number(0, 9)}"
    return dice.one(
        (
            "UPDATE ledger SET n = n + 1",
            "UPDATE ledger SET n = n + 1",
            f"UPDATE ledger SET note = {_note('id + n')} WHERE {some}",
            f"UPDATE ledger SET kind = (kind + 1) % 7, note = {_note('id')} WHERE n % 3 = 0",
            f"DELETE FROM ledger WHERE {some}",
            f"INSERT INTO ledger SELECT {fresh} + i, i, i % 7, {_note('i')} FROM generate_series(1, 400) i",
            f"UPDATE ledger SET id = -id WHERE {some}",
        )
    )


def _note(number: str) -> str:
    return f"repeat(chr(97 + abs({number}) % 26), {WIDTH})"
