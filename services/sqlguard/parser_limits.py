"""What sqlglot may be given: a short text can take it for ever, or deeper than Python's stack."""

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

MOST_TOKENS = 20_000
DEEPEST = 100
# sqlglot tries each call of a type's name as a type first, and again as a function: twice the time a level.
MOST_NESTED_TYPES = 6
_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET))
_TYPES = frozenset(PostgresParser.TYPE_TOKENS) | {TokenType.ARRAY, TokenType.STRUCT}


class TooCostly(Exception):
    """Why the parser must not read a text."""


def check_tokens(tokens: Sequence[Token]) -> None:
    """Raise TooCostly for what takes the parser too long, or too deep."""
    if len(tokens) > MOST_TOKENS:
        raise TooCostly(f"a statement of more than {MOST_TOKENS} words")
    nested: list[bool] = []
    before: TokenType | None = None
    for token in tokens:
        if token.token_type in _OPENING:
            nested.append(before in _TYPES)
            if len(nested) > DEEPEST:
                raise TooCostly(f"brackets nested more than {DEEPEST} deep")
            if nested[-1] and sum(nested) > MOST_NESTED_TYPES:
                raise TooCostly(f"names of types with brackets, nested more than {MOST_NESTED_TYPES} deep")
        elif token.token_type in _CLOSING and nested:
            nested.pop()
        before = token.token_type


def parsed_within_limits(sql: str, into: type[exp.Expr] | None = None) -> exp.Expr:
    """sqlglot's tree of a text; TooCostly before it begins, or sqlglot's own errors."""
    check_tokens(sqlglot.tokenize(sql, read="postgres"))
    return sqlglot.parse_one(sql, read="postgres", into=into)
