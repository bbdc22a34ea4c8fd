"""PostgreSQL's SQL as a tree in which every function keeps the name that the query gives it."""

from itertools import pairwise
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from services.recompute.core.dialect.typed import Untranslatable

# Aggregates and windows, which the relational half knows by their own nodes. Every other call stays an exp.Anonymous:
# sqlglot would merge functions that PostgreSQL tells apart (date_part is not extract, "position"(a, b) not position).
_KEPT = frozenset(
    (
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR", "ARRAY_AGG", "STRING_AGG"),
        *("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"),
        *("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "UNNEST", "GENERATE_SERIES"),
    )
)
_SPECIAL_FORMS = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "STRING_AGG", "SUBSTRING", "TRIM")
_QUOTED_FORMS = frozenset(("cast", "extract", "overlay", "position", "trim"))
_UNITS = frozenset(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"))


class Plain(Postgres):
    """PostgreSQL's grammar without sqlglot's notion of which functions mean the same."""

    class Parser(PostgresParser):
        FUNCTIONS: ClassVar[Any] = {name: build for name, build in PostgresParser.FUNCTIONS.items() if name in _KEPT}
        FUNCTION_PARSERS: ClassVar[Any] = {
            name: parse for name, parse in PostgresParser.FUNCTION_PARSERS.items() if name in _SPECIAL_FORMS
        }

        def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> exp.Interval:
            """The text as it stands: sqlglot would keep `1 day` of `1 day 02:03:04` and drop the rest."""
            found: Any = self._curr
            unit = self._parse_var(any_token=True, upper=True) if found and found.text.upper() in _UNITS else None
            return exp.Interval(this=this, unit=unit)


def parse(sql: str) -> exp.Expression:
    """The tree of one statement, raising Untranslatable for what sqlglot is known to read otherwise than PostgreSQL."""
    try:
        tokens = sqlglot.tokenize(sql, read=Plain)
        _check(tokens)
        tree: Any = sqlglot.parse_one(sql, read=Plain)
    except SqlglotError as error:
        raise Untranslatable("syntax that sqlglot does not read") from error
    if not isinstance(tree, exp.Expression):
        raise Untranslatable("syntax that sqlglot does not read")
    return tree


def _check(tokens: list[Token]) -> None:
    for token, following in pairwise(tokens):
        is_adjacent = token.end + 1 == following.start
        if token.token_type == TokenType.NUMBER and is_adjacent and following.token_type == TokenType.VAR:
            raise Untranslatable(f"number {token.text}{following.text}")
        if (
            token.token_type == TokenType.IDENTIFIER
            and following.token_type == TokenType.L_PAREN
            and token.text in _QUOTED_FORMS
        ):
            raise Untranslatable(f'function "{token.text}"')
