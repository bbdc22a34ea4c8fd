"""Whether a result that Spark computed is what PostgreSQL answers at the same place of the log."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from proto.rows import ResultRow
from services.recompute.core.plan import Plan

_FLOATS = frozenset(("float4", "float8"))
# The digits in which sums of floats may differ by the order of the rows.
NEAR = 1e-6


class Verdict(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    # The query has no single right answer, and whether this is one of them cannot be told.
    UNCERTAIN = "uncertain"


def verdict(plan: Plan, ours: Counter[ResultRow], theirs: Sequence[ResultRow]) -> Verdict:
    """Rows as multisets; a query without a single right answer by what all its answers have in common."""
    if ours == Counter(theirs):
        return Verdict.RIGHT
    if plan.stable:
        return Verdict.WRONG
    if ours.total() != len(theirs):
        return Verdict.WRONG
    floats = [at for at, column in enumerate(plan.columns) if column.type.name in _FLOATS]
    return Verdict.RIGHT if _are_near(floats, list(ours.elements()), theirs) else Verdict.UNCERTAIN


def unlike(ours: Counter[ResultRow], theirs: Iterable[ResultRow]) -> tuple[list[ResultRow], list[ResultRow]]:
    """The rows that are missing, and those that are too many."""
    right = Counter(theirs)
    return list((right - ours).elements()), list((ours - right).elements())


def _are_near(floats: Sequence[int], ours: Sequence[ResultRow], theirs: Sequence[ResultRow]) -> bool:
    def sorted_by_all(rows: Sequence[ResultRow]) -> list[tuple[list[tuple[bool, bytes]], list[float]]]:
        return sorted(_split(floats, row) for row in rows)

    for (exact, near), (right, right_near) in zip(sorted_by_all(ours), sorted_by_all(theirs), strict=True):
        if exact != right:
            return False
        if not all(
            math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR) for one, other in zip(near, right_near, strict=True)
        ):
            return False
    return True


def _split(floats: Sequence[int], row: ResultRow) -> tuple[list[tuple[bool, bytes]], list[float]]:
    """What must be equal, and the floats, NaN as the greatest; where one is NULL is part of what must be equal."""
    exact = [(value is None, b"" if at in floats else value or b"") for at, value in enumerate(row)]
    numbers = [float(value) for at in floats if (value := row[at]) is not None]
    return exact, [math.inf if math.isnan(number) else number for number in numbers]
