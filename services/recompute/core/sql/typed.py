"""An expression in Spark SQL with the type that PostgreSQL gives it."""

from collections.abc import Callable
from typing import Protocol, TypedDict

from msgspec import Struct

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, PgType

BOOL = PgType(16, "bool")
NAME = PgType(19, "name", collation=Collation.BYTES)
INT8 = PgType(20, "int8")
INT2 = PgType(21, "int2")
INT4 = PgType(23, "int4")
TEXT = PgType(25, "text")
FLOAT4 = PgType(700, "float4")
FLOAT8 = PgType(701, "float8")
BPCHAR = PgType(1042, "bpchar")
VARCHAR = PgType(1043, "varchar")
DATE = PgType(1082, "date")
TIMESTAMP = PgType(1114, "timestamp")
TIMESTAMPTZ = PgType(1184, "timestamptz")
INTERVAL = PgType(1186, "interval")
NUMERIC = PgType(1700, "numeric")
UUID = PgType(2950, "uuid")

INTEGERS = frozenset({"int2", "int4", "int8"})
FLOATS = frozenset({"float4", "float8"})
_LONG = 240
STRINGS = frozenset({"text", "varchar", "bpchar", "name"})


class Untranslatable(Exception):
    """Spark is not known to give what PostgreSQL gives; `reason` is a short noun phrase, e.g. "function int4range"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Span(Struct, frozen=True):
    """An interval, in the three parts that PostgreSQL keeps apart."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def negated(self) -> "Span":
        return Span(-self.months, -self.days, -self.microseconds)

    @property
    def compared_us(self) -> int:
        """What intervals are compared by: a month counts 30 days, a day 24 hours."""
        return (self.months * 30 + self.days) * 86_400_000_000 + self.microseconds


class Typed(Struct, frozen=True, kw_only=True):
    """Spark SQL for a value, stored as core/storage.py says for its type, with these additions.

    A numeric without a modifier is stored as text, unless `digits` says the DECIMAL(precision, scale) that it is
    computed as. PostgreSQL prints it with `scale` digits after the point; `printed_scale` is Spark SQL for their number
    where it is not the same in every row.
    """

    sql: str
    type: PgType
    digits: tuple[int, int] | None = None
    printed_scale: str | None = None
    # `sql` is canonical text that only rendering.py can finish (a quotient): it may be printed, nothing else.
    deferred: bool = False
    # The text or the number that a constant is, where it is one.
    text: str | None = None
    # A constant interval; `sql` is empty.
    span: Span | None = None
    # An interval between two moments; `sql` is its microseconds.
    elapsed: bool = False
    is_constant: bool = False
    reads_clock: bool = False
    # There is no single right value.
    unstable: bool = False


class Scope(Protocol):
    """What is the same for all expressions of a template."""

    @property
    def settings(self) -> TextSettings: ...

    @property
    def collation(self) -> Collation:
        """The database's default collation."""
        ...


def bound(sql: str, form: Callable[[str], str]) -> str:
    """A form that says a value more than once: a long one gets a name, so that it is written and computed once."""
    if len(sql) <= _LONG:
        return form(sql)
    return f"element_at(transform(array({sql}), bound -> {form('bound')}), 1)"


class Flags(TypedDict):
    is_constant: bool
    reads_clock: bool
    unstable: bool


def merged_flags(*parts: Typed) -> Flags:
    """The flags of an expression made of others."""
    return Flags(
        is_constant=all(part.is_constant for part in parts),
        reads_clock=any(part.reads_clock for part in parts),
        unstable=any(part.unstable for part in parts),
    )
