"""One run of a query by PostgreSQL, in the place of its subscriber."""

from collections.abc import Sequence

import psycopg
from msgspec import Struct
from psycopg import generators, pq
from psycopg.errors import error_from_result

from proto.rows import ResultRow
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis import barrier
from services.chassis.snapshot import Snapshot
from services.chassis.trust import examine
from services.recompute.core.refusal import Refused
from services.recompute.inbound.subscriber import in_place_of, statement, types_of, unreachable, values_of, words_of

# As many rows are taken from libpq at a time: the whole result is never held twice.
CHUNK_ROWS = 1000
TOO_MANY_ROWS = "54000"
UNKNOWN_TYPE = 705


class Ran(Struct, frozen=True):
    """The rows in the query's order, as text under the subscriber's settings."""

    query_id: bytes
    rows: list[ResultRow]
    snapshot: Snapshot
    # Emitted after the run.
    barrier_id: str
    # What now() said in it.
    moment_us: int


class RanBadly(Struct, frozen=True):
    """What PostgreSQL said instead; without a snapshot the run did not come so far."""

    query_id: bytes
    sqlstate: str
    message: str
    snapshot: Snapshot | None
    barrier_id: str
    moment_us: int


class Limits(Struct, frozen=True):
    statement_timeout_ms: int
    max_rows: int


class Postponed(Exception):
    """Nothing was learned of the query: a lock was not to be had."""


def run(
    connection: psycopg.Connection,
    query_id: bytes,
    query: Query,
    limits: Limits,
    *,
    trusted_owners: Sequence[str],
    is_examined: bool,
) -> Ran | RanBadly:
    """Run it; a connection that breaks is raised as psycopg.Error, a lock that was waited for in vain as Postponed.

    `is_examined`: the statement was found to be trusted lately, and looking again would cost too much.
    """
    snapshot: Snapshot | None = None
    moment_us = 0
    rows: list[ResultRow] = []
    trouble: tuple[str, str] | None = None
    try:
        with in_place_of(query, connection, statement_timeout_ms=limits.statement_timeout_ms) as moment:
            snapshot, moment_us = moment.snapshot, moment.moment_us
            if not is_examined:
                examine(connection, statement(query), types_of(query), trusted_owners=trusted_owners)
            rows = _rows(connection, query, limits.max_rows)
    except Refused as refused:
        trouble = (refused.sqlstate, refused.message)
    except psycopg.Error as error:
        if unreachable(error):
            raise
        if error.sqlstate in ("55P03", "40001", "40P01"):
            raise Postponed from error
        trouble = words_of(error)
    # Behind the run, so that the log tells by then all that the run did not see.
    barrier_id = barrier.emit(connection)
    if trouble is not None:
        return RanBadly(query_id, *trouble, snapshot, barrier_id, moment_us)
    assert snapshot is not None
    return Ran(query_id, rows, snapshot, barrier_id, moment_us)


def _rows(connection: psycopg.Connection, query: Query, max_rows: int) -> list[ResultRow]:
    server = connection.pgconn
    types = [0 if oid == UNKNOWN_TYPE else oid for oid in types_of(query)]
    server.send_query_params(statement(query).encode(), values_of(query), types)
    server.set_chunked_rows_mode(CHUNK_ROWS)
    connection.wait(generators.send(server))
    rows: list[ResultRow] = []
    error: psycopg.Error | None = None
    while (result := connection.wait(generators.fetch(server))) is not None:
        if result.status == pq.ExecStatus.FATAL_ERROR:
            error = error_from_result(result)
        elif len(rows) <= max_rows:
            columns = range(result.nfields)
            rows += [tuple([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]
            if len(rows) > max_rows:
                connection.cancel_safe()
    if len(rows) > max_rows:
        raise Refused(TOO_MANY_ROWS, f"the result has more than {max_rows} rows")
    if error is not None:
        raise error
    return rows
