"""Topic SQL on the wire: how a statement of ours is known by its first letters, and how PostgreSQL's answers to what it
was sent instead are made answers to what the client wrote.

A statement becomes a call of a procedure on the client's own connection. What the procedure says, tells by itself what
it is: a notice carries the command tag of the statement, an error the place in the client's text. So nothing has to be
counted or remembered of the client's prepared statements and portals.
"""

import re
from struct import Struct as Packed
from typing import Any

from msgspec import Struct

from proto.pgwire import backend
from proto.pgwire.framing import encode_frame

# How each of our statements begins.
OURS = re.compile(
    rb"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    rb"(?:(?:create|alter|drop|clear)\s+topic\b|show\s+topics\b|consume\s+from\b|ack\s|reset\s+consumer\s+group\b)",
    re.IGNORECASE | re.DOTALL,
)
# What decides for nearly all other statements: the first byte, then the first two.
_BLANK = frozenset(b" \t\r\n\f\v-/")
FIRST = _BLANK | frozenset(b"cadsrCADSR")
_TWO = frozenset((b"cr", b"al", b"dr", b"cl", b"sh", b"co", b"ac", b"re"))
# So far into a statement its first words are looked for; and the longest name of a prepared one.
WINDOW_BYTES, NAME_BYTES = 256, 128
STATEMENT_LIMIT_BYTES = 64 * 1024

SCHEMA, NOTICE_CODE = b"_tidewire_topics", b"TW001"
TAGS = frozenset((b"CREATE TOPIC", b"ALTER TOPIC", b"DROP TOPIC", b"CLEAR TOPIC"))
NOT_INSTALLED = "topics are not installed in this database: run `tidewire install`"
_ABSENT = frozenset((b"3F000", b"42883", b"42501"))
# Of an error: what tells of our procedures and not of the client's statement.
_OWN_FIELDS = frozenset(b"WFLRscqpP")
_LENGTH = Packed("!i")
_QUERY = ord("Q")


class Held(Struct, frozen=True):
    """A statement that PostgreSQL cannot carry out: it is sent the answer to it, once there is one."""

    statement: Any


def place_of(data: bytes, at: int, following: int) -> int:
    """Of a Query or Parse whose header is at `at`: where a statement of ours has its text.

    0: it is not ours. Less than 0: minus the bytes of the message that must be there to tell.
    """
    end = len(data)
    text = at + 5
    if data[at] != _QUERY:
        ended = data.find(0, text, min(following, text + NAME_BYTES))
        if ended < 0:
            looked = min(following, text + NAME_BYTES)
            return at - looked if looked > end else 0
        text = ended + 1
    if text >= end:
        return at - min(following, text + 2) if following > end else 0
    first = data[text]
    if first not in FIRST:
        return 0
    looked = min(following, text + 2 if first not in _BLANK else text + WINDOW_BYTES)
    if looked > end:
        return at - looked
    if first not in _BLANK and data[text:looked].lower() not in _TWO:
        return 0
    looked = min(following, text + WINDOW_BYTES)
    if looked > end:
        return at - looked
    if OURS.match(data, text, looked) is None or following - text > STATEMENT_LIMIT_BYTES:
        return 0
    return at - following if following > end else text


def replaced(data: bytes, at: int, following: int, text: int, statement: str) -> bytes:
    """The message with another statement in it."""
    ended = data.find(0, text, following)
    return encode_frame(data[at], data[at + 5 : text] + statement.encode("ascii") + data[ended:following])


class TopicAnswers:
    """Of one session that has sent a statement of ours."""

    def __init__(self) -> None:
        self._tag: bytes | None = None

    def edited(self, kind: int, body: bytes) -> bytes | None:
        """What the client gets instead of a notice, an error or a completion; None: the message as it is."""
        if kind == backend.COMMAND_COMPLETE:
            tag, self._tag = self._tag, None
            return encode_frame(kind, tag + b"\0") if tag is not None and body == b"CALL\0" else None
        if SCHEMA not in body:
            return None
        fields = {part[0]: part[1:] for part in body.split(b"\0") if part}
        is_ours = fields.get(ord("s")) == SCHEMA
        if kind != backend.ERROR_RESPONSE:
            if not is_ours or fields.get(ord("C")) != NOTICE_CODE:
                return None
            tag = fields.get(ord("c"), b"")
            self._tag = tag if tag in TAGS else None
            return b""
        self._tag = None
        if not is_ours and fields.get(ord("C")) not in _ABSENT:
            return None
        kept = {code: value for code, value in fields.items() if code not in _OWN_FIELDS and value}
        if is_ours:
            place = fields.get(ord("c"), b"")
            if place.isdigit():
                kept[ord("P")] = place
        else:
            kept[ord("M")] = NOT_INSTALLED.encode()
        return encode_frame(kind, b"".join(bytes((code,)) + value + b"\0" for code, value in kept.items()) + b"\0")
