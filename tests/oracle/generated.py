"""Whole cases out of one source of chance."""

from random import Random

from tests.oracle.case import Case, Place
from tests.oracle.dice import Dice
from tests.oracle.queries import Queries
from tests.oracle.schemas import schema
from tests.oracle.transactions import transactions


def case(random: Random, place: Place, *, questions: int, steps: int) -> Case:
    """Some of the questions may be such that PostgreSQL does not take them."""
    dice = Dice(random)
    made = schema(dice)
    queries = Queries(dice, made.relations)
    return Case(
        setup=made.statements,
        steps=transactions(dice, made, steps),
        questions=tuple(queries.question() for _ in range(questions)),
        place=place,
    )
