"""Spark's result beside PostgreSQL's answer."""

from collections import Counter

import pytest

from services.recompute.core.catalog import PgType
from services.recompute.core.plan import OutputColumn, Plan, Strategy
from services.recompute.core.verdict import Verdict, unlike, verdict


def plan(*types: str, stable: bool = True) -> Plan:
    columns = tuple(OutputColumn(name, PgType(0, name, -1, "b")) for name in types)
    return Plan(strategy=Strategy.FULL, why_not={}, columns=columns, stable=stable)


def rows(*values: tuple[str | None, ...]) -> list[tuple[bytes | None, ...]]:
    return [tuple(None if value is None else value.encode() for value in row) for row in values]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([("1", "a"), ("2", None)], [("2", None), ("1", "a")], Verdict.RIGHT),
        ([("1", "a")], [("1", "a"), ("1", "a")], Verdict.WRONG),
        ([("1", "a")], [("1", None)], Verdict.WRONG),
        ([("1.0", "a")], [("1.00", "a")], Verdict.WRONG),
        ([], [], Verdict.RIGHT),
    ],
)
def test_a_query_with_one_answer_is_compared_byte_for_byte(ours, theirs, found):
    assert verdict(plan("numeric", "text"), Counter(rows(*ours)), rows(*theirs)) == found


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([("0.30000000000000004", "a")], [("0.3", "a")], Verdict.RIGHT),
        ([("0.3", "a"), ("NaN", "b")], [("NaN", "b"), ("0.30000000000000004", "a")], Verdict.RIGHT),
        ([("0.3", "a")], [("0.4", "a")], Verdict.UNCERTAIN),
        ([(None, "a")], [("0", "a")], Verdict.UNCERTAIN),
        ([("1", "a")], [("1", "b")], Verdict.UNCERTAIN),
        ([("1", "a")], [("1", "a"), ("2", "a")], Verdict.WRONG),
    ],
)
def test_a_query_with_several_answers_is_compared_by_what_they_have_in_common(ours, theirs, found):
    assert verdict(plan("float8", "text", stable=False), Counter(rows(*ours)), rows(*theirs)) == found


def test_the_difference_is_told_by_rows():
    missing, surplus = unlike(Counter(rows(("1",), ("1",), ("2",))), rows(("1",), ("3",)))
    assert (missing, sorted(surplus)) == (rows(("3",)), rows(("1",), ("2",)))
