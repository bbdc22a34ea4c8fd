"""The one statement in a text, found as PostgreSQL's lexer would cut it."""

import re

from services.sqlguard.refusal import ONLY_SELECT, Refused

MULTIPLE = "cannot insert multiple commands into a prepared statement"
# Words that begin a command other than a query; what begins with any other is PostgreSQL's to judge.
_COMMANDS = frozenset(
    [
        "abort",
        "alter",
        "analyze",
        "begin",
        "call",
        "checkpoint",
        "close",
        "cluster",
        "comment",
        "commit",
        "copy",
        "create",
        "deallocate",
        "declare",
        "delete",
        "discard",
        "do",
        "drop",
        "end",
        "execute",
        "explain",
        "fetch",
        "grant",
        "import",
        "insert",
        "listen",
        "load",
        "lock",
        "merge",
        "move",
        "notify",
        "prepare",
        "reassign",
        "refresh",
        "reindex",
        "release",
        "reset",
        "revoke",
        "rollback",
        "savepoint",
        "security",
        "set",
        "show",
        "start",
        "truncate",
        "unlisten",
        "update",
        "vacuum",
    ]
)
_TOKEN = re.compile(
    r"""
      [ \t\n\r\f\v]+ | --[^\n\r]*
    | [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
    | (?P<dollar>\$(?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$)
    | (?P<word>[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*) | [0-9]+[\w$]*
    | (?P<comment>/\*) | (?P<end>;) | .
    """,
    re.DOTALL | re.VERBOSE,
)
_EDGE = re.compile(r"/\*|\*/")


def only_statement(sql: str) -> str:
    """The text without what follows its semicolon; Refused if that is another statement, or if it is none or no query.

    It is no boundary of security: a text that this reads otherwise than PostgreSQL still runs with its owner's rights.
    """
    at, end, first = 0, None, ""
    while at < len(sql):
        token = _TOKEN.match(sql, at)
        assert token is not None
        start, at = at, token.end()
        if token["comment"]:
            at = _comment_end(sql, start)
            continue
        if token["dollar"]:
            end_of_quote = sql.find(token["dollar"], at)
            at = len(sql) if end_of_quote < 0 else end_of_quote + len(token["dollar"])
        if token["end"]:
            end = start if end is None else end
        elif token[0].isspace() or token[0].startswith("--"):
            continue
        elif end is not None:
            raise Refused("42601", MULTIPLE)
        else:
            first = first or token[0].lower()
    if not first or first in _COMMANDS:
        raise Refused("0A000", ONLY_SELECT)
    return sql if end is None else sql[:end]


def _comment_end(sql: str, at: int) -> int:
    depth, end = 0, at
    while edge := _EDGE.search(sql, end):
        depth, end = depth + (1 if edge[0] == "/*" else -1), edge.end()
        if not depth:
            return end
    return len(sql)
