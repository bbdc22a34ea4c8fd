"""The ordinary messages of the PostgreSQL protocol that a live client needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidewire.frames import INT16, INT32, Body, c_string, frame

PROTOCOL_3: Final = 3 << 16
SSL_REQUEST: Final = INT32.pack(8) + INT32.pack(80877103)

QUERY, PARSE, DESCRIBE, CLOSE, SYNC, TERMINATE, PASSWORD, COPY_FAIL = b"QPDCSXpf"
AUTHENTICATION, PARAMETER_STATUS, ERROR_RESPONSE, READY = b"RSEZ"
ROW_DESCRIPTION, DATA_ROW, COMMAND_COMPLETE, COPY_IN, COPY_OUT = b"TDCGH"

# The statement that a Describe is about; closed at once, so that it is never in the way of the user's own.
STATEMENT = "_tidewire_description"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result, and the table's column that it is, if it is one (else `table` and `number` are 0)."""

    name: str
    table: int
    number: int
    type: int


def start_up(settings: Mapping[str, str]) -> bytes:
    body = INT32.pack(PROTOCOL_3) + b"".join(c_string(text) for pair in settings.items() for text in pair) + b"\0"
    return INT32.pack(len(body) + 4) + body


def query(sql: str) -> bytes:
    return frame(QUERY, c_string(sql))


def describe(sql: str) -> bytes:
    """Ask what columns a query has, without running it."""
    name = c_string(STATEMENT)
    return (
        frame(PARSE, name + c_string(sql) + INT16.pack(0))
        + frame(DESCRIBE, b"S" + name)
        + frame(CLOSE, b"S" + name)
        + frame(SYNC, b"")
    )


def password(secret: bytes) -> bytes:
    return frame(PASSWORD, secret)


def copy_fail(words: str) -> bytes:
    return frame(COPY_FAIL, c_string(words))


TERMINATION: Final = frame(TERMINATE, b"")


def error_fields(data: bytes) -> dict[str, str]:
    """By the letters of the protocol's manual page; before log-in the words may be in any encoding."""
    parts = (part for part in data.split(b"\0") if part)
    return {chr(part[0]): part[1:].decode(errors="replace") for part in parts}


def parameter_status(data: bytes) -> tuple[str, str]:
    body = Body(data)
    return body.string(), body.string()


def columns(data: bytes) -> tuple[Column, ...]:
    body = Body(data)
    return tuple(_column(body) for _ in range(body.count()))


def _column(body: Body) -> Column:
    name, table, number, kind = body.string(), body.int32() & 0xFFFFFFFF, body.int16(), body.int32() & 0xFFFFFFFF
    body.take(8)  # size, modifier, format
    return Column(name, table, number, kind)


def data_row(data: bytes) -> tuple[bytes | None, ...]:
    body = Body(data)
    return tuple(body.value() for _ in range(body.count()))
