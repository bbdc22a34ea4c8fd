"""Sixty queries as applications write them: how each is kept, and that each is right while its tables change."""

import re
from collections.abc import Callable

import pytest

from services.devstack.settings import PROJECT
from tests.oracle import road
from tests.oracle.applications.application import NAMES, Application, read
from tests.oracle.campaign import TIMEOUT_S
from tests.oracle.case import Case, Check, Place, Question, Step
from tests.oracle.watching import OracleRoad

# A wrong answer is wrong at the first time.
pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
DOCUMENT = PROJECT / "docs" / "applications.md"
ON_SPARK = ("row-local", "full")
_LINE = re.compile(r"^\| (shop|chat|billing|monitoring) \| ([^|]+?) \| ([\w-]+) \|", re.MULTILINE)
# Float averages and sums: (query, result columns) that PostgreSQL itself may print with other last digits.
APPROXIMATE = {"average by host": (2,)}
# Ordered by columns that do not settle the place of every row.
TIES = ("statement of an account",)
_ORDERED = re.compile(r"ORDER BY [^()]*$", re.DOTALL)


def listed() -> dict[tuple[str, str], str]:
    """The strategy of each query, as the document says."""
    return {(application, query): strategy for application, query, strategy in _LINE.findall(DOCUMENT.read_text())}


def case_of(application: Application) -> Case:
    questions = tuple(
        Question(one.sql, one.parameters, check=_check(one.name, one.sql), name=one.name) for one in application.queries
    )
    steps = tuple(Step((change,)) for change in application.changes)
    return Case(setup=(application.schema, application.data), steps=steps, questions=questions)


def _check(name: str, sql: str) -> Check:
    has_order = _ORDERED.search(sql) is not None and name not in TIES
    return Check(approximate=APPROXIMATE.get(name, ()), total_order=has_order)


def test_the_document_lists_sixty_queries_and_fifty_five_run_on_spark():
    strategies = listed()
    queries = {(name, query.name) for name in NAMES for query in read(name).queries}
    assert (set(strategies), len(queries)) == (queries, 60)
    assert sum(strategy in ON_SPARK for strategy in strategies.values()) >= 55


@pytest.mark.parametrize("name", NAMES)
def test_each_query_of_an_application_is_right_and_kept_as_the_document_says(
    name: str, road_at: Callable[[Place], OracleRoad]
):
    asked = case_of(read(name))
    report = road.run(road_at(Place()), asked)
    assert {found.question.name: found.words for found in report.wrong} == {}
    kept = {(name, question.name): strategy for question, strategy in zip(asked.questions, report.kept, strict=True)}
    assert kept == {key: strategy for key, strategy in listed().items() if key[0] == name}
