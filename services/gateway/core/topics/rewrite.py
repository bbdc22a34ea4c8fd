"""Topic statements as PostgreSQL is sent them: what a client wrote stands in them as a literal of ASCII letters."""

from typing import Any

import orjson

from services.gateway.core.topics.parse import parse
from services.gateway.core.topics.statements import Define, ShowTopics, Statement, TopicSqlError

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _.,:{}[]()-=<>")
_SHOWN = "SELECT * FROM _tidewire_topics.topics ORDER BY name"
NOT_UTF8 = "topic statements are read as UTF-8: SET client_encoding TO 'UTF8'"
BY_HTTP = "Use POST /api/topics/consume and /api/topics/ack, or POST /v1/api/sql."


def literal(text: str) -> str:
    """Valid in any encoding and with any setting of how strings are read: every other letter is an escape."""
    return "E'" + "".join(each if each in _PLAIN else _escaped(each) for each in text) + "'"


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def defined(statement: Define) -> str:
    asked: dict[str, Any] = {
        "do": statement.do,
        "topic": statement.topic,
        "at": {word: str(place) for word, place in statement.places.items()},
        **statement.asked,
    }
    return f"CALL _tidewire_topics.statement({literal(orjson.dumps(asked).decode())})"


def refused(error: TopicSqlError) -> str:
    place = "" if error.place is None else str(error.place)
    parts = ", ".join(literal(part) for part in (error.sqlstate, error.words, place, error.hint))
    return f"CALL _tidewire_topics.refuse({parts})"


def rewritten(text: bytes) -> tuple[str, Statement | None]:
    """What PostgreSQL is sent instead; with the statement, if it is one that the gateway itself must carry out."""
    try:
        statement = parse(text.decode())
    except UnicodeDecodeError:
        return refused(TopicSqlError(NOT_UTF8, sqlstate="22021")), None
    except TopicSqlError as error:
        return refused(error), None
    if isinstance(statement, Define):
        return defined(statement), None
    if isinstance(statement, ShowTopics):
        return _SHOWN, None
    return "", statement


def to_postgres(text: bytes) -> str:
    """What a session on the PG port sends; what the gateway itself carries out is asked for over HTTP."""
    made, statement = rewritten(text)
    if statement is None:
        return made
    name = type(statement).__name__.upper()
    error = TopicSqlError(
        f"{name} takes no part in transactions and is not answered on this port", 1, sqlstate="0A000", hint=BY_HTTP
    )
    return refused(error)
