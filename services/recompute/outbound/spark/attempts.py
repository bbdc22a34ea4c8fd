"""Runs many templates in one job; a job that fails is halved until only the failing templates are left."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

from msgspec import Struct
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from proto.rows import ResultRow
from services.recompute.core.job import Failed, Job
from services.recompute.outbound.spark.deadlines import Overdue

Found = TypeVar("Found")
# A limit of time around one job.
Limit: TypeAlias = Callable[[], AbstractContextManager[None]]

LONGEST_REASON = 500


class SparkLost(Exception):
    """The session is gone, and every job would fail."""

    exit_code, retry = 1, True

    def __init__(self) -> None:
        super().__init__("Spark does not run any more: start again")


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

    def __init__(self, limit: Limit, is_lost: Callable[[], bool]) -> None:
        self._limit, self._is_lost = limit, is_lost
        self._suspects: set[str] = set()
        # By the job's number: the time of the longest run that it was in, since `answers` was last called.
        self.took_s: dict[int, float] = {}

    def answers(
        self, units: Sequence[Unit], run: Callable[[Sequence[Unit]], list[list[Found]]], *, size: int
    ) -> dict[tuple[int, int], Found | Failed]:
        """For each job's number and each of its tuples what `run` gives for it; `size` units go into one run."""
        answers: dict[tuple[int, int], Found | Failed] = {}
        self.took_s = defaultdict(float)
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
        began_s = time.monotonic()
        try:
            with self._limit():
                found = run(units)
        except Overdue as overdue:
            late = Failed(str(overdue), is_overdue=True, was_alone=len({unit.number for unit in units}) == 1)
            yield from ((unit, [late] * len(unit.tuples)) for unit in units)
            return
        except Exception as error:  # any error of a template; if Spark itself is gone, it was not the template
            if self._is_lost():
                raise SparkLost from error
            failure = error
        else:
            took_s = time.monotonic() - began_s
            for unit in units:
                self._suspects.discard(unit.template)
                self.took_s[unit.number] = max(self.took_s[unit.number], took_s)
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
    if not isinstance(failure, Py4JJavaError) and type(failure).__module__ == "builtins":
        text = f"{type(failure).__name__}: {text}"
    return (text.strip().splitlines() or [type(failure).__name__])[0][:LONGEST_REASON]
