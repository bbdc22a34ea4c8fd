"""The lists of expressions: one a line, {a|b} standing for either, and after @ the rows in which PostgreSQL answers."""

import re
from itertools import product
from pathlib import Path

from msgspec import Struct

HERE = Path(__file__).parent / "expressions"


class Expression(Struct, frozen=True):
    sql: str
    where: str = "true"


def listed(name: str) -> list[Expression]:
    lines = (HERE / f"{name}.txt").read_text().splitlines()
    return [Expression(*one.split(" @ ")) for line in lines for one in _expanded(line)]


def _expanded(line: str) -> list[str]:
    parts = re.split(r"\{([^}]*\|[^}]*)\}", line)
    choices = [[part] if number % 2 == 0 else part.split("|") for number, part in enumerate(parts)]
    return ["".join(chosen) for chosen in product(*choices)]
