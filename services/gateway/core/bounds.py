"""How large a subscribe request may be, told before anything reads it: each letter is looked at once."""

import re

from msgspec import Struct

from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import RefusalCode, SubscribeRefused

_TOKEN = re.compile(
    r"(?P<line>--[^\n]*)|(?P<comment>/\*)|(?P<escaped>[eE]')|(?P<quote>')|(?P<name>\")|(?P<dollar>\$(?:[^\W\d]\w*)?\$)"
    r"|(?P<opens>[(\[])|(?P<closes>[)\]])|(?P<word>[\w$]+)|(?P<sign>[-+~!@#^&|`?*/%<>=])|(?P<other>[^\s])"
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")
# Any run of letters up to the quote that ends the string; a backslash takes the next letter with it.
_ESCAPED_ENDS = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL)
_NUL = "holds a NUL byte, which no text of PostgreSQL may"
_PARTS = frozenset(("select", "table", "values", "join", "union", "intersect", "except"))


class Bounds(Struct, frozen=True, kw_only=True):
    """What is refused is told in a sentence; all of it together stays far below what a broker takes in one record."""

    statement_bytes: int = 64 * 1024
    filter_bytes: int = 16 * 1024
    parameters: int = 1_000
    parameters_bytes: int = 128 * 1024
    # How deep brackets, CASE and signs in front of a value may nest.
    nesting: int = 50
    # How many SELECT, TABLE, VALUES, JOIN and set operations there may be.
    parts: int = 100

    def refuse_size(self, request: SubscribeRequest) -> None:
        """What is known without reading the text; also text that PostgreSQL cannot take at all."""
        _refuse_over("the query has", len(request.query.encode()), self.statement_bytes, "bytes")
        _refuse_over("the filter has", len((request.filter or "").encode()), self.filter_bytes, "bytes")
        _refuse_over("there are", len(request.parameters), self.parameters, "parameters")
        held = sum(len(value) for value in request.parameters if value is not None)
        _refuse_over("the parameters have", held, self.parameters_bytes, "bytes")
        for number, value in enumerate(request.parameters, start=1):
            _refuse_no_text(number, value or b"")
        if "\0" in (request.filter or ""):
            raise SubscribeRefused(RefusalCode.FILTER_ERROR, f"Filter parse error: the filter {_NUL}")

    def refuse_shape(self, request: SubscribeRequest) -> None:
        """What would be too deep or too wide for those who read it later."""
        for text in (request.query, request.filter or ""):
            nesting, parts = shape(text)
            _refuse_over("the query nests", nesting, self.nesting, "levels")
            _refuse_over("the query has", parts, self.parts, "SELECTs, tables, joins and set operations")


class SubscribeLimits(Struct, frozen=True, kw_only=True):
    """What one connection may ask for, and how often."""

    bounds: Bounds = Bounds()
    subscribes_per_s: int
    # Subscribes that are being checked.
    subscribes_under_way: int
    # Unsubscribes, pauses and resumes together.
    messages_per_s: int


def shape(text: str) -> tuple[int, int]:
    """How deep it nests, and how many parts it has."""
    depth = deepest = parts = signs = at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        kind, at = token.lastgroup, token.end()
        word = token[0].lower() if kind == "word" else ""
        if kind == "opens" or word == "case":
            depth += 1
        elif kind == "closes" or word == "end":
            depth = max(0, depth - 1)
        elif kind in ("comment", "escaped", "quote", "name", "dollar"):
            at = _behind(text, kind, token[0], at)
        parts += word in _PARTS
        if kind not in ("comment", "line"):
            signs = signs + 1 if kind == "sign" or word == "not" else 0
        deepest = max(deepest, depth + signs)
    return deepest, parts


def _behind(text: str, kind: str, opening: str, at: int) -> int:
    """Where what was opened ends; the end of the text if it does not."""
    if kind == "comment":
        return _behind_comment(text, at)
    if kind == "escaped":
        ended = _ESCAPED_ENDS.match(text, at)
        return len(text) if ended is None else ended.end()
    mark = {"quote": "'", "name": '"'}.get(kind, opening)
    end = text.find(mark, at)
    return len(text) if end < 0 else end + len(mark)


def _behind_comment(text: str, at: int) -> int:
    """Comments nest."""
    depth = 1
    for mark in _COMMENT_ENDS.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _refuse_no_text(number: int, value: bytes) -> None:
    if b"\0" in value:
        raise SubscribeRefused(RefusalCode.PARSE_ERROR, f"Parse error: parameter ${number} {_NUL}")
    try:
        value.decode()
    except UnicodeDecodeError:
        raise SubscribeRefused(
            RefusalCode.PARSE_ERROR, f"Parse error: parameter ${number} is not UTF-8: parameters are sent as text"
        ) from None


def _refuse_over(what: str, found: int, most: int, unit: str) -> None:
    if found > most:
        raise SubscribeRefused(
            RefusalCode.LIMIT_EXCEEDED, f"Limit exceeded: {what} {found} {unit}, over the limit of {most}"
        )
