"""SQL tokens as PostgreSQL's own lexer (scan.l) cuts them, and one canonical way to write them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from msgspec import Struct


class Kind(Enum):
    WORD = "word"  # a keyword or a name without quotes
    QUOTED_NAME = "quoted name"
    STRING = "string"  # '…' without a prefix
    OTHER_STRING = "other string"  # E'…', B'…', U&'…', $tag$…$tag$
    NUMBER = "number"
    PARAMETER = "parameter"
    SIGN = "sign"  # operators and punctuation


class Token(Struct, frozen=True):
    kind: Kind
    text: str
    # A line ends between the token before and this one: two strings so parted are one to PostgreSQL.
    on_new_line: bool = False


_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_LINE_COMMENT = re.compile(r"--[^\n\r]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_PLAIN_STRING = r"'(?:[^']|'')*'"
_TOKENS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.OTHER_STRING, re.compile(r"[eE]'(?:[^'\\]|''|\\.)*'", re.DOTALL)),
    (Kind.OTHER_STRING, re.compile(rf"(?:[bBxXnN]|[uU]&){_PLAIN_STRING}")),
    (Kind.QUOTED_NAME, re.compile(r'(?:[uU]&)?"(?:[^"]|"")+"')),
    (Kind.STRING, re.compile(_PLAIN_STRING)),
    (Kind.OTHER_STRING, re.compile(r"\$((?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?)\$.*?\$\1\$", re.DOTALL)),
    (Kind.PARAMETER, re.compile(r"\$[0-9]+(?![\w$])")),
    (Kind.WORD, re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*")),
    (
        Kind.NUMBER,
        re.compile(
            r"(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
            r"|(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9_]+)?)(?![\w$])"
        ),
    ),
    (Kind.SIGN, re.compile(r"::|:=|\.\.|[,()\[\].;:]")),
)
_OPERATOR = re.compile(r"[+\-*/<>=~!@#%^&|`?]+")
_FOLD = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}

# After these a bracket opens an expression or a list, not the arguments of a function.
_NOT_CALLED = re.compile(
    "all|and|any|as|between|by|case|distinct|else|except|exists|filter|from|group|having|ilike|in|intersect|into|is"
    "|join|lateral|like|limit|not|offset|on|or|order|over|partition|select|similar|some|then|to|union|using|values"
    "|when|where|with|within"
)


class Unlexed(Exception):
    """The text is not what PostgreSQL's lexer takes, or more than ours does."""


def tokens(sql: str) -> list[Token]:
    """The text without spaces and comments, names without quotes folded to lower case as PostgreSQL folds them."""
    return list(_cut(sql))


def folded(name: str) -> str:
    """A name without quotes as PostgreSQL takes it: only ASCII letters are folded in UTF-8."""
    return name.translate(_FOLD)


def written(words: Iterable[Token]) -> str:
    """One text for equal tokens; cutting it gives them again."""
    parts: list[str] = []
    before: Token | None = None
    for token in words:
        if before is not None:
            parts.append(_gap(before, token))
        parts.append(token.text)
        before = token
    return "".join(parts)


def same(some: Sequence[Token], others: Sequence[Token]) -> bool:
    """Whether both mean the same text, wherever their lines end."""
    return [(one.kind, one.text) for one in some] == [(one.kind, one.text) for one in others]


def _cut(sql: str) -> Iterator[Token]:
    at, new_line = 0, False
    while at < len(sql):
        end = _blank_end(sql, at)
        if end > at:
            new_line = new_line or "\n" in sql[at:end] or "\r" in sql[at:end]
            at = end
            continue
        token = _token(sql, at)
        yield Token(token.kind, folded(token.text) if token.kind is Kind.WORD else token.text, new_line)
        at, new_line = at + len(token.text), False


def _token(sql: str, at: int) -> Token:
    for kind, pattern in _TOKENS:
        if found := pattern.match(sql, at):
            return Token(kind, found[0])
    if found := _OPERATOR.match(sql, at):
        return Token(Kind.SIGN, _operator(found[0]))
    raise Unlexed(sql[at : at + 20])


def _operator(run: str) -> str:
    """An operator ends where a comment begins, and ends in + or - only if it holds a sign that no plain one has."""
    for comment in ("--", "/*"):
        run = run.partition(comment)[0]
    while len(run) > 1 and run[-1] in "+-" and not any(sign in run for sign in "~!@#%^&|`?"):
        run = run[:-1]
    return run


def _blank_end(sql: str, at: int) -> int:
    if found := _SPACE.match(sql, at) or _LINE_COMMENT.match(sql, at):
        return found.end()
    if not sql.startswith("/*", at):
        return at
    depth, end = 0, at
    while edge := _COMMENT_EDGE.search(sql, end):
        depth, end = depth + (1 if edge[0] == "/*" else -1), edge.end()
        if not depth:
            return end
    raise Unlexed("/*")


def _gap(before: Token, token: Token) -> str:
    if token.kind is Kind.STRING and before.kind in (Kind.STRING, Kind.OTHER_STRING):
        return "\n" if token.on_new_line else " "
    names = (Kind.WORD, Kind.QUOTED_NAME)
    if token.text == "::" and before.kind is Kind.SIGN and before.text not in (")", "]"):
        return " "
    if token.text in (",", ")", "]", "[", "::"):
        return " " if token.text == "[" and _NOT_CALLED.fullmatch(before.text) else ""
    if before.text in ("(", "[", "::"):
        return ""
    if token.text == "." and before.kind in names:
        return ""
    if before.text == "." and (token.kind in names or token.text == "*"):
        return ""
    if token.text == "(" and before.kind in names and not _NOT_CALLED.fullmatch(before.text):
        return ""
    return " "
