"""One run of a query by PostgreSQL, under the role and settings of its subscriber."""

from collections.abc import Callable, Sequence

import psycopg
from msgspec import Struct

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.changelog.snapshot import Snapshot
from services.recompute.outbound.postgres.subscriber import (
    in_place_of,
    statement,
    types_of,
    unreachable,
    values_of,
    words_of,
)
from services.sqlguard.entrance import Inside
from services.sqlguard.parse_tree import Parsed
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners
from services.sqlguard.trust import examine


class Ran(Struct, frozen=True):
    """The rows in the query's order, as text under the subscriber's settings."""

    query_id: bytes
    rows: list[ResultRow]
    snapshot: Snapshot
    # Emitted after the run.
    barrier_id: str
    # The value of now() in the run.
    moment_us: int


class RanBadly(Struct, frozen=True):
    """The error of a run; without a snapshot if it failed before there was one."""

    query_id: bytes
    sqlstate: str
    message: str
    snapshot: Snapshot | None
    barrier_id: str
    moment_us: int


class RunLimits(Struct, frozen=True):
    statement_timeout_ms: int
    max_rows: int


class Postponed(Exception):
    """A lock could not be had in time: run the query again."""


def run(
    runners: Runners,
    query_id: bytes,
    query: Query,
    limits: RunLimits,
    *,
    trusted_owners: Sequence[str],
    emit_barrier: Callable[[], str],
) -> Ran | RanBadly:
    """Run the query; raises psycopg.Error for a lost connection, Postponed for a lock that could not be had."""
    snapshot: Snapshot | None = None
    moment_us = 0
    rows: list[ResultRow] = []
    trouble: tuple[str, str] | None = None
    try:
        with in_place_of(query, runners, statement_timeout_ms=limits.statement_timeout_ms) as inside:
            snapshot, moment_us = inside.snapshot, inside.moment_us
            parsed = examine(inside, statement(query), types_of(query), trusted_owners=trusted_owners)
            rows = _rows(inside, query, parsed, limits.max_rows)
    except Refused as refused:
        trouble = (refused.sqlstate, refused.message)
    except psycopg.Error as error:
        if unreachable(error):
            raise
        if error.sqlstate in ("55P03", "40001", "40P01"):
            raise Postponed from error
        trouble = words_of(error)
    # Emitted after the run: when it has passed the log, all commits that the run did not see are known.
    barrier_id = emit_barrier()
    if trouble is not None:
        return RanBadly(query_id, *trouble, snapshot, barrier_id, moment_us)
    assert snapshot is not None
    return Ran(query_id, rows, snapshot, barrier_id, moment_us)


def _rows(inside: Inside, query: Query, parsed: Parsed, max_rows: int) -> list[ResultRow]:
    values = values_of(query)
    if len(values) != len(parsed.parameter_types):
        needed = len(parsed.parameter_types)
        raise Refused("08P01", f"the query needs {needed} parameters, and {len(values)} are given")
    columns = len(parsed.columns)
    return inside.rows(statement(query), parsed.parameter_types, values, columns=columns, most=max_rows)
