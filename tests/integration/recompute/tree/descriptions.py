"""The tree that a server prints for a statement, beside its own description of the result."""

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.errors import Diagnostic, error_from_result

_TELLING = ("debug_print_rewritten = on", "debug_pretty_print = off", "client_min_messages = log")


class Described(Struct, frozen=True):
    rewritten: str
    # Name, type and type modifier of each.
    columns: list[tuple[str, int, int]]


def described(connection: psycopg.Connection, sql: str) -> Described:
    """As the server reads a statement, in the open transaction; raises psycopg.Error where it does not."""
    told: list[str] = []

    def hear(diagnostic: Diagnostic) -> None:
        if diagnostic.message_primary == "rewritten parse tree:":
            told.append(diagnostic.message_detail or "")

    for setting in _TELLING:
        connection.execute(f"SET LOCAL {setting}".encode())
    connection.add_notice_handler(hear)
    try:
        _good(connection.pgconn.prepare(b"", sql.encode()))
        found = _good(connection.pgconn.describe_prepared(b""))
    finally:
        connection.remove_notice_handler(hear)
    columns = [
        ((found.fname(place) or b"").decode(), found.ftype(place), found.fmod(place)) for place in range(found.nfields)
    ]
    return Described(" ".join(told[-1].split()), columns)


def _good(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise error_from_result(result)
    return result
