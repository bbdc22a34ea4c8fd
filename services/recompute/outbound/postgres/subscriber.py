"""A transaction in the place of a subscriber: his role, his search path, his settings, and nothing written."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.meaning import BROUGHT, MEANING
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber

APPLICATION_NAME = "tidewire recompute"


@contextmanager
def in_place_of(query: Query, runners: Runners, *, statement_timeout_ms: int) -> Iterator[Inside]:
    """Everything inside is one REPEATABLE READ, READ ONLY transaction inside the role, which is rolled back."""
    # A lock is waited for less long: it says nothing of the query.
    deadlines = Deadlines(statement_timeout_ms, statement_timeout_ms // 2)
    with runners.borrowed(subscriber_of(query)) as runner, entered(runner, query.role, deadlines) as inside:
        inside.set(
            {
                **MEANING,
                **texts_of(query.text_settings),
                **{name: value for name, value in query.settings_read.items() if can_be_set(name)},
                "search_path": ", ".join(map(quoted, query.search_path)),
            }
        )
        yield inside


def can_be_set(name: str) -> bool:
    """Settings of a subscriber that our session takes over as they are: the users' own, his application's name, and
    those by which the same text means something else.

    Any other that a query reads belongs to the query itself, to the server, or cannot be known here.
    """
    return "." in name or name == "application_name" or name in BROUGHT


def subscriber_of(query: Query) -> Subscriber:
    return Subscriber(login=query.login or query.role, role=query.role)


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
    """Whether the connection is gone, so that the error says nothing of the query.

    A subscriber's code may raise any SQLSTATE, but nothing above ERROR: only the server ends a session with FATAL.
    """
    return error.sqlstate is None or error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def words_of(error: psycopg.Error) -> tuple[str, str]:
    """SQLSTATE and the message, as PostgreSQL says them."""
    return error.sqlstate or "XX000", error.diag.message_primary or str(error)
