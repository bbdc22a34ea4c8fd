"""Topic statements as PostgreSQL is sent them: what a client wrote stands in them as a literal of ASCII letters."""

import re
from typing import Any

import orjson

from proto.pgwire.topic_statements import Held
from services.gateway.core.topics.parse import parse
from services.gateway.core.topics.statements import Ack, Carried, Consume, Define, Reset, ShowTopics, TopicSqlError

_SPECIAL = re.compile(r"""[^A-Za-z0-9 _.,:{}\[\]()<>=+/"-]""")
_SHOWN = "SELECT * FROM _tidewire_topics.topics ORDER BY name"
NOT_UTF8 = "topic statements are read as UTF-8: SET client_encoding TO 'UTF8'"
NOT_PREPARED = (
    "{} takes no part in transactions: it cannot be prepared under a name, nor stand behind others in a batch"
)
# An answer is written as one literal, which PostgreSQL and the gateway both hold whole.
MOST_ANSWER_BYTES = 8 * 1024 * 1024
TOO_MUCH = "the messages are more than one answer can hold"
FEWER = "Ask for fewer by LIMIT; those that a group was given come again when its claim has ended."
SEND_ALONE = "Send it as a simple query, or unnamed and first behind a Sync; or use POST /api/topics/consume and ack."


def literal(text: str) -> str:
    """Valid in any encoding and with any setting of how strings are read: every other letter is an escape."""
    return "E'" + _SPECIAL.sub(_escaped, text) + "'"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
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


def shown(statement: Carried, rows: list[list[Any]], once: str) -> str:
    """What PostgreSQL is sent instead of a statement that was carried out: its rows; it gives them only once."""
    function = {Consume: "consumed", Ack: "acked", Reset: "reset"}[type(statement)]
    told = orjson.dumps({"rows": rows, "once": once}).decode()
    if len(told) > MOST_ANSWER_BYTES:
        raise TopicSqlError(TOO_MUCH, 1, sqlstate="54000", hint=FEWER)
    return f"SELECT * FROM _tidewire_topics.{function}({literal(told)})"


def rewritten(text: bytes) -> tuple[str, Carried | None]:
    """What PostgreSQL is sent instead; or the statement, if it is one that the gateway itself must carry out."""
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


def to_postgres(text: bytes, can_be_held: bool) -> str | Held:
    """What a session on the PG port sends now, or holds until the gateway has carried it out."""
    made, statement = rewritten(text)
    if statement is None:
        return made
    if can_be_held:
        return Held(statement)
    name = type(statement).__name__.upper()
    return refused(TopicSqlError(NOT_PREPARED.format(name), 1, sqlstate="0A000", hint=SEND_ALONE))
