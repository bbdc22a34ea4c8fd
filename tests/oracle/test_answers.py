"""The judge itself: what it lets pass and what it does not."""

import pytest

from tests.oracle.answers import Answer, difference
from tests.oracle.case import Check, Question
from tests.oracle.reducing import shorter

ONE, TWO, NULL = (b"1", b"a"), (b"2", b"b"), (None, b"a")


@pytest.mark.parametrize(
    ("check", "right", "rows", "in_order"),
    [
        (Check(), Answer((ONE, TWO)), [TWO, ONE], True),
        (Check(ordered_by=(0,)), Answer((ONE, TWO)), [ONE, TWO], True),
        (Check(ordered_by=(0,)), Answer((ONE, TWO)), [TWO, ONE], False),
        (Check(approximate=(0,)), Answer(((b"0.3", b"a"),)), [(b"0.30000000000000004", b"a")], False),
        (Check(approximate=(0,)), Answer(((b"NaN", b"a"), (None, b"b"))), [(None, b"b"), (b"NaN", b"a")], False),
        (Check(among="q"), Answer((ONE,), among=(ONE, TWO)), [TWO], False),
    ],
)
def test_an_answer_that_postgres_might_have_given_passes(check, right, rows, in_order):
    assert difference(check, right, rows, in_order=in_order) == ""


@pytest.mark.parametrize(
    ("check", "right", "rows", "in_order"),
    [
        (Check(), Answer((ONE, TWO)), [ONE], False),
        (Check(), Answer((ONE, ONE)), [ONE], False),
        (Check(), Answer((ONE,)), [ONE, ONE], False),
        (Check(), Answer((NULL,)), [(b"", b"a")], False),
        (Check(), Answer((ONE,)), [(b"1.0", b"a")], False),
        (Check(), Answer(error="22012"), [], False),
        (Check(ordered_by=(0,)), Answer((ONE, TWO)), [TWO, ONE], True),
        (Check(total_order=True), Answer((ONE, TWO)), [TWO, ONE], True),
        (Check(approximate=(0,)), Answer(((b"0.3", b"a"),)), [(b"0.31", b"a")], False),
        (Check(approximate=(0,)), Answer(((b"0.3", b"a"),)), [(b"0.3", b"b")], False),
        (Check(among="q"), Answer((ONE,), among=(ONE, TWO)), [NULL], False),
        (Check(among="q"), Answer((ONE,), among=(ONE, TWO)), [ONE, TWO], False),
        (Check(among="q", ordered_by=(0,)), Answer((ONE,), among=(ONE, TWO)), [TWO], False),
    ],
)
def test_an_answer_that_postgres_cannot_have_given_does_not_pass(check, right, rows, in_order):
    assert difference(check, right, rows, in_order=in_order) != ""


def test_a_query_gets_shorter_one_part_at_a_time_and_keeps_its_parameters():
    question = Question("SELECT a AS x, b FROM t WHERE a = $1 AND b IS NULL", ("1",))
    cuts = {one.sql for one in shorter(question)}
    assert {"SELECT b FROM t WHERE a = $1 AND b IS NULL", "SELECT a AS x, b FROM t WHERE a = $1"} <= cuts
    assert all("$1" in cut for cut in cuts)
