"""A transaction of ours in the place of a subscriber: his role, his search path, his settings, and nothing written."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from msgspec import Struct
from psycopg import pq

from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.parsed import keep_out_of_the_server_log, set_local
from services.chassis.postgres import Postgres, connect
from services.chassis.snapshot import Snapshot
from services.recompute.core.refusal import Refused

APPLICATION_NAME = "tidewire recompute"
_MOMENT = """
SELECT pg_current_snapshot()::text, (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint
"""
# Whatever our own role's defaults are.
_MEANING = {"row_security": "on", "standard_conforming_strings": "on", "transform_null_equals": "off"}


class Moment(Struct, frozen=True):
    """What the transaction sees, and what now() says in it, in microseconds since 1970."""

    snapshot: Snapshot
    moment_us: int


def opened(postgres: Postgres) -> tuple[psycopg.Connection, bool]:
    """A connection for such transactions, and whether the server keeps parse trees out of its log."""
    connection = connect(postgres, application_name=APPLICATION_NAME, client_encoding="UTF8")
    # Our own statements between the subscribers' must not be looked up in anybody's schemas.
    connection.execute("SET search_path = pg_catalog")
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
    return connection, keep_out_of_the_server_log(connection)


@contextmanager
def in_place_of(query: Query, connection: psycopg.Connection, *, statement_timeout_ms: int) -> Iterator[Moment]:
    """Everything inside is one REPEATABLE READ, READ ONLY transaction, which is rolled back at the end.

    The role counts from the first statement on; a function could set it back, so what is run inside must be trusted.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        row = connection.execute(_MOMENT).fetchone()
        assert row is not None
        set_local(
            connection,
            {
                "statement_timeout": str(statement_timeout_ms),
                # A lock is waited for less long: it says nothing of the query.
                "lock_timeout": str(statement_timeout_ms // 2),
                **_MEANING,
                **texts_of(query.text_settings),
                # Names with a dot are the users' own; any other that a query reads is set above or the server's.
                **{name: value for name, value in query.settings_read.items() if "." in name},
                "role": query.role,
                "search_path": ", ".join(map(quoted, query.search_path)),
            },
        )
        yield Moment(Snapshot.parse(row[0]), row[1])
    finally:
        if connection.info.transaction_status != pq.TransactionStatus.UNKNOWN:
            connection.execute("ROLLBACK")


def texts_of(text: TextSettings) -> dict[str, str]:
    """The settings by which values are read and printed; one that was not told is the server's own."""
    told = {
        "TimeZone": text.time_zone,
        "DateStyle": text.date_style,
        "IntervalStyle": text.interval_style,
        "bytea_output": text.bytea_output,
    }
    return {
        **{name: value for name, value in told.items() if value},
        "extra_float_digits": str(text.extra_float_digits),
    }


def statement(query: Query) -> str:
    """The template, with the subscription's filter around it."""
    bare = query.template_sql.strip().removesuffix(";").strip()
    whole = f"SELECT * FROM (\n{bare}\n) AS result WHERE (\n{query.filter}\n)" if query.filter else bare
    _refuse_zero(whole.encode())
    return whole


def types_of(query: Query) -> list[int]:
    return [parameter.type_oid for parameter in query.parameters]


def values_of(query: Query) -> list[bytes | None]:
    for parameter in query.parameters:
        _refuse_zero(parameter.value)
    return [parameter.value if parameter.HasField("value") else None for parameter in query.parameters]


def _refuse_zero(text: bytes) -> None:
    """PostgreSQL has no such character, and libpq would read only what stands before it."""
    if b"\0" in text:
        raise Refused("22021", 'invalid byte sequence for encoding "UTF8": 0x00')


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def unreachable(error: psycopg.Error) -> bool:
    """Whether the connection is gone, so that the error says nothing of the query."""
    sqlstate = error.sqlstate
    return sqlstate is None or sqlstate[:2] in ("08", "53", "58") or sqlstate.startswith("57P")


def words_of(error: psycopg.Error) -> tuple[str, str]:
    """SQLSTATE and the message, as PostgreSQL says them."""
    return error.sqlstate or "XX000", error.diag.message_primary or str(error)
