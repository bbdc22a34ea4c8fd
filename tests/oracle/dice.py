"""Choices, all from one source of chance that Hypothesis seeds."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

Chosen = TypeVar("Chosen")


class Dice:
    def __init__(self, random: Random) -> None:
        self._random = random

    def chance(self, of_hundred: int) -> bool:
        return self._random.randrange(100) < of_hundred

    def one(self, choices: Sequence[Chosen]) -> Chosen:
        return choices[self._random.randrange(len(choices))]

    def number(self, least: int, most: int) -> int:
        return self._random.randint(least, most)

    def some(self, choices: Sequence[Chosen], least: int, most: int) -> list[Chosen]:
        """Different ones, in any order."""
        count = min(len(choices), self.number(least, most))
        return self._random.sample(list(choices), count)
