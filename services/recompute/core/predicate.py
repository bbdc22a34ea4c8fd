"""Conditions that Spark decides exactly as PostgreSQL does: which they are, and how SQL becomes one of them."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from sqlglot import exp

from services.recompute.core.table import TableColumn
from services.recompute.errors import NotSupported

INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
TEXTS = {"text", "varchar"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Comparison(Struct, frozen=True, tag=True):
    """A column's value against a constant; NULL makes the comparison unknown."""

    position: int
    operator: str
    value: int | bool | str | None


class IsNull(Struct, frozen=True, tag=True):
    position: int


class Negation(Struct, frozen=True, tag=True):
    of: "Predicate"


class Junction(Struct, frozen=True, tag=True):
    """AND or OR of two conditions, in SQL's three-valued logic."""

    operator: str
    left: "Predicate"
    right: "Predicate"


class Always(Struct, frozen=True, tag=True):
    pass


Predicate: TypeAlias = Comparison | IsNull | Negation | Junction | Always

# Finds a column of the table by the way SQL names it.
Lookup: TypeAlias = Callable[[exp.Column], int]


class Binder:
    """Turns a condition into a predicate over the columns of a table, or refuses it."""

    def __init__(self, columns: Sequence[TableColumn], lookup: Lookup, parameters: Sequence[bytes | None]) -> None:
        self._columns, self._lookup, self._parameters = columns, lookup, parameters

    def bind(self, condition: exp.Expr) -> Predicate:
        match condition:
            case exp.Paren():
                return self.bind(condition.this)
            case exp.And():
                return Junction("and", self.bind(condition.this), self.bind(condition.expression))
            case exp.Or():
                return Junction("or", self.bind(condition.this), self.bind(condition.expression))
            case exp.Not():
                return Negation(self.bind(condition.this))
            case exp.Is():
                return self._is(condition)
            case exp.Column():
                position = self._position(condition)
                if self._columns[position].type_name != "bool":
                    raise NotSupported(f"the condition {_shown(condition)}")
                return Comparison(position, "=", True)
            case _ if type(condition) in _OPERATORS:
                return self._comparison(condition)
        raise NotSupported(f"the condition {_shown(condition)}")

    def _is(self, condition: exp.Is) -> Predicate:
        if not (isinstance(condition.this, exp.Column) and isinstance(condition.expression, exp.Null)):
            raise NotSupported(f"the condition {_shown(condition)}")
        is_null = IsNull(self._position(condition.this))
        return Negation(is_null) if condition.args.get("negate") else is_null

    def _comparison(self, condition: exp.Expr) -> Predicate:
        operator = _OPERATORS[type(condition)]
        left, right = condition.this, condition.expression
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _FLIPPED[operator]
        if not isinstance(left, exp.Column):
            raise NotSupported(f"the condition {_shown(condition)}")
        position = self._position(left)
        column = self._columns[position]
        if column.type_name not in INTEGERS and operator not in ("=", "<>"):
            raise NotSupported(f"{operator} on a column of type {column.type_name}")
        return Comparison(position, operator, self._constant(right, column))

    def _constant(self, value: exp.Expr, column: TableColumn) -> int | bool | str | None:
        match value:
            case exp.Null():
                return None
            case exp.Boolean() if column.type_name == "bool":
                return bool(value.this)
            case exp.Literal(is_string=True):
                return _typed(value.this, column)
            case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)) if column.type_name in INTEGERS:
                # A literal without quotes has a type of its own, which may be wider than the column's.
                return _integer(value.sql().replace(" ", ""), 64)
            case exp.Parameter(this=exp.Literal()):
                given = self._parameter(int(value.this.this))
                return None if given is None else _typed(_text(given), column)
        raise NotSupported(f"a comparison of a column of type {column.type_name} with {_shown(value)}")

    def _parameter(self, number: int) -> bytes | None:
        if not 1 <= number <= len(self._parameters):
            raise NotSupported(f"${number}, for which no value was sent")
        return self._parameters[number - 1]

    def _position(self, column: exp.Column) -> int:
        position = self._lookup(column)
        found = self._columns[position]
        if found.type_name not in (*INTEGERS, *TEXTS, "bool"):
            raise NotSupported(f"a condition on a column of type {found.type_name}")
        if found.type_name in TEXTS and not found.deterministic:
            raise NotSupported(f"a condition on column {found.name}, whose collation is not deterministic")
        return position


def _typed(text: str, column: TableColumn) -> int | bool | str:
    """A constant that takes the column's type: a quoted literal, or a parameter."""
    if column.type_name in TEXTS:
        return text
    if column.type_name == "bool":
        if text not in ("t", "f", "true", "false"):
            raise NotSupported(f"the boolean {text!r}")
        return text.startswith("t")
    return _integer(text, INTEGERS[column.type_name])


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotSupported("a parameter that is not UTF-8") from error


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise NotSupported(f"the number {text} for an integer of {bits} bits")
    return int(text)


def _shown(expression: exp.Expr) -> str:
    return expression.sql(dialect="postgres")
