"""Jobs of many templates, halved where they fail until only the ones to blame have failed."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from proto.rows import ResultRow
from services.recompute.core.job import Failed, Job
from services.recompute.core.rendering import Unrenderable
from services.recompute.core.storage import Unstorable

Found = TypeVar("Found")

# What one template can do to a job; a lost connection to Spark is none of these.
FAILURES = (PySparkException, Py4JJavaError, Unstorable, Unrenderable, ValueError, ArithmeticError)
LONGEST_REASON = 500


class Unit(Struct, frozen=True):
    """Some tuples of the job with a number."""

    number: int
    job: Job
    tuples: tuple[int, ...]

    @property
    def values(self) -> tuple[ResultRow, ...]:
        return tuple([self.job.tuples[at] for at in self.tuples])

    @property
    def template(self) -> str:
        """What its failures are remembered by."""
        row_local, full = self.job.plan.row_local, self.job.plan.full
        return f"{row_local.predicate} {row_local.outputs}" if row_local else full.sql if full else ""

    def halves(self) -> "list[Unit]":
        middle = len(self.tuples) // 2
        return [Unit(self.number, self.job, part) for part in (self.tuples[:middle], self.tuples[middle:])]


class Attempts:
    """Remembers which templates failed: they run apart from the others until they succeed."""

    def __init__(self) -> None:
        self._suspects: set[str] = set()

    def answers(
        self, units: Sequence[Unit], run: Callable[[Sequence[Unit]], list[list[Found]]], *, size: int
    ) -> dict[tuple[int, int], Found | Failed]:
        """For each job's number and each of its tuples what `run` gives for it; `size` units go into one run."""
        answers: dict[tuple[int, int], Found | Failed] = {}
        trusted = [unit for unit in units if unit.template not in self._suspects]
        groups = [trusted[at : at + size] for at in range(0, len(trusted), size)]
        groups += [[unit] for unit in units if unit.template in self._suspects]
        for group in groups:
            for unit, found in self._attempt(group, run):
                for at, rows in zip(unit.tuples, found, strict=True):
                    answers[unit.number, at] = rows
        return answers

    def _attempt(
        self, units: Sequence[Unit], run: Callable[[Sequence[Unit]], list[list[Found]]]
    ) -> Iterator[tuple[Unit, Sequence[Found | Failed]]]:
        try:
            found = run(units)
        except FAILURES as error:
            failure = error
        else:
            for unit in units:
                self._suspects.discard(unit.template)
            yield from zip(units, found, strict=True)
            return
        if len(units) > 1:
            middle = len(units) // 2
            yield from self._attempt(units[:middle], run)
            yield from self._attempt(units[middle:], run)
        elif len(units[0].tuples) > 1:
            for half in units[0].halves():
                yield from self._attempt([half], run)
        else:
            self._suspects.add(units[0].template)
            yield units[0], [Failed(_reason(failure))]


def _reason(failure: Exception) -> str:
    text = str(failure.java_exception if isinstance(failure, Py4JJavaError) else failure)
    return (text.strip().splitlines() or [type(failure).__name__])[0][:LONGEST_REASON]
