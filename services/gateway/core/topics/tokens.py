"""The words of a topic statement, each with its place in the text, read as PostgreSQL's own lexer does."""

import re
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^']|'')*')
  | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
  | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<word>[^\W\d][\w$]*)
  | (?P<number>\d+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Kind(Enum):
    WORD = "word"
    QUOTED = "quoted"
    TEXT = "text"
    NUMBER = "number"
    # Anything else: punctuation, operators, strings of other forms.
    OTHER = "other"
    END = "end"


class Token(Struct, frozen=True):
    kind: Kind
    # As it stands in the text.
    raw: str
    # From 1, in characters, as PostgreSQL counts.
    place: int

    @property
    def upper(self) -> str:
        return self.raw.upper() if self.kind is Kind.WORD else ""

    @property
    def value(self) -> str:
        """A name folded as PostgreSQL folds it, or what stands between quotes."""
        if self.kind is Kind.QUOTED:
            return self.raw[1:-1].replace('""', '"')
        if self.kind is Kind.TEXT:
            return self.raw[1:-1].replace("''", "'")
        return self.raw.lower() if self.kind is Kind.WORD else self.raw


_KINDS = {"text": Kind.TEXT, "quoted": Kind.QUOTED, "word": Kind.WORD, "number": Kind.NUMBER}


def tokens(text: str) -> Iterator[Token]:
    """All of them, and one END behind the last."""
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "tag":
            kind = "dollar"
        if kind == "space":
            continue
        yield Token(_KINDS.get(kind or "", Kind.OTHER), found.group(), found.start() + 1)
    yield Token(Kind.END, "", len(text) + 1)
