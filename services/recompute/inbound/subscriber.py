"""A transaction of ours in the place of a subscriber: his role, his search path, his settings, and nothing written."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import pq

from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.parsed import set_local


@contextmanager
def in_place_of(query: Query, connection: psycopg.Connection, *, statement_timeout_ms: int) -> Iterator[None]:
    """Everything inside is one REPEATABLE READ, READ ONLY transaction, which is rolled back at the end.

    The role counts from the first statement on; a function could set it back, so what is run inside must be trusted.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        text = query.text_settings
        settings = {
            "statement_timeout": str(statement_timeout_ms),
            "TimeZone": text.time_zone,
            "DateStyle": text.date_style,
            "IntervalStyle": text.interval_style,
            "bytea_output": text.bytea_output,
        }
        set_local(
            connection,
            {
                **{name: value for name, value in settings.items() if value},
                "extra_float_digits": str(text.extra_float_digits),
                # Names with a dot are the users' own; any other that a query reads is set above or the server's.
                **{name: value for name, value in query.settings_read.items() if "." in name},
                "role": query.role,
                "search_path": ", ".join(map(quoted, query.search_path)),
            },
        )
        yield
    finally:
        if connection.info.transaction_status != pq.TransactionStatus.UNKNOWN:
            connection.execute("ROLLBACK")


def statement(query: Query) -> str:
    """The template, with the subscription's filter around it."""
    bare = query.template_sql.strip().removesuffix(";").strip()
    return f"SELECT * FROM (\n{bare}\n) AS result WHERE (\n{query.filter}\n)" if query.filter else bare


def types_of(query: Query) -> list[int]:
    return [parameter.type_oid for parameter in query.parameters]


def values_of(query: Query) -> list[bytes | None]:
    return [parameter.value if parameter.HasField("value") else None for parameter in query.parameters]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def unreachable(error: psycopg.Error) -> bool:
    """Whether the connection is gone, so that the error says nothing of the query."""
    sqlstate = error.sqlstate
    return sqlstate is None or sqlstate[:2] in ("08", "53", "58") or sqlstate.startswith("57P")


def words_of(error: psycopg.Error) -> Sequence[str]:
    """SQLSTATE and the message, as PostgreSQL says them."""
    return error.sqlstate or "XX000", error.diag.message_primary or str(error)
