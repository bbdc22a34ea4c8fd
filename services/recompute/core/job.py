"""Evaluation jobs for Spark, and their answers."""

from msgspec import Struct

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.plan import Plan


class Job(Struct, frozen=True, kw_only=True):
    """A template with the parameters of the queries that use it: as many queries as tuples."""

    plan: Plan
    settings: TextSettings
    tuples: tuple[ResultRow, ...]
    # The value of now(), in microseconds since 1970.
    moment_us: int


class Failed(Struct, frozen=True):
    """Spark has no answer for this template, or for one tuple of it; PostgreSQL is to be asked."""

    reason: str
    # It was ended by a deadline, and whether no other template was in its job.
    is_overdue: bool = False
    was_alone: bool = True


class Rows(Struct, frozen=True):
    """Whole results: for each tuple its rows, each with its row's key; in the result's order if it has one.

    The key is the log's text of the key columns of the one table that a row-local plan reads, else empty.
    """

    found: tuple[list[tuple[ResultRow, ResultRow]] | Failed, ...]
    # The time of the longest job that it was in.
    took_s: float = 0.0


class Signed(Struct, frozen=True):
    """For each tuple the changed rows that belong to its result: key, row, and +1, or -1 for one that is gone."""

    found: tuple[list[tuple[ResultRow, ResultRow, int]] | Failed, ...]
