"""Whatever one template does to a job is its own failure; the others of the job are answered."""

from contextlib import contextmanager, nullcontext

import pyarrow as pa
import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.job import Failed, Job
from services.recompute.core.plan import Full, Plan, Strategy
from services.recompute.outbound.spark.attempts import Attempts, SparkLost, Unit
from services.recompute.outbound.spark.deadlines import Overdue


def unit(number, sql="SELECT 1"):
    plan = Plan(strategy=Strategy.FULL, why_not={}, columns=(), full=Full(sql=sql, by_tuple=False))
    return Unit(number, Job(plan=plan, settings=TextSettings(), tuples=((),), moment_us=0), (0,))


def running(error, bad):
    def run(units):
        if any(one.number == bad for one in units):
            raise error
        return [[f"rows of {one.number}"] for one in units]

    return run


@pytest.mark.parametrize(
    "error",
    [RecursionError("deep"), MemoryError(), pa.ArrowNotImplementedError("month"), KeyError("c7"), AssertionError()],
    ids=lambda error: type(error).__name__,
)
def test_any_exception_is_the_failure_of_the_template_to_blame(error):
    attempts = Attempts(nullcontext, lambda: False)
    units = [unit(number, f"SELECT {number}") for number in range(5)]
    answers = attempts.answers(units, running(error, 3), size=16)
    assert isinstance(answers.pop((3, 0)), Failed)
    assert answers == {(number, 0): f"rows of {number}" for number in (0, 1, 2, 4)}


def test_a_lost_spark_session_is_not_the_failure_of_a_template():
    with pytest.raises(SparkLost):
        Attempts(nullcontext, lambda: True).answers([unit(0)], running(ConnectionError(), 0), size=16)


@pytest.mark.parametrize(("count", "was_alone"), [(1, True), (2, False)])
def test_a_job_that_is_overdue_is_not_tried_again_and_says_who_was_in_it(count, was_alone):
    runs = []

    @contextmanager
    def limit():
        runs.append(1)
        yield
        raise Overdue(2.0)

    units = [unit(number) for number in range(count)]
    answers = Attempts(limit, lambda: False).answers(units, running(None, -1), size=16)
    assert len(runs) == 1
    assert {(one.is_overdue, one.was_alone) for one in answers.values()} == {(True, was_alone)}
