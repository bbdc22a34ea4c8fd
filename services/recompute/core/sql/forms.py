"""The forms in which a typed value is used: printed, compared for equality, put in order."""

from services.recompute.core.catalog import Collation
from services.recompute.core.sql.datetimes import interval_text
from services.recompute.core.sql.numerics import as_decimal, decimal, digits_of, numeric_text
from services.recompute.core.sql.typed import FLOATS, Scope, Typed, Untranslatable
from services.recompute.core.storage import canonical, is_key_fit, is_typed, spark_type

_ORDERED_TEXTS = frozenset(("text", "varchar", "bpchar"))


def canonical_of(typed: Typed) -> str:
    """The STRING that leaves Spark."""
    if typed.span is not None:
        raise Untranslatable("an interval as a result")
    if typed.elapsed:
        return interval_text(typed)
    if typed.type.name == "numeric":
        return numeric_text(typed)
    return canonical(typed.type, typed.sql)


def spark_type_of(typed: Typed) -> str:
    if typed.elapsed:
        return "BIGINT"
    if typed.digits is not None and not typed.deferred:
        return decimal(typed.digits)
    return "STRING" if typed.deferred else spark_type(typed.type)


def equality_key(typed: Typed) -> str:
    """What is equal in Spark if and only if the values are equal in PostgreSQL."""
    _require_value(typed)
    if typed.elapsed:
        return typed.sql
    if typed.type.collation is Collation.LOOSE:
        raise Untranslatable("a nondeterministic collation")
    if typed.type.name == "bpchar":
        return f"rtrim({typed.sql})"
    if typed.type.name == "numeric":
        return as_decimal(typed).sql
    if not is_typed(typed.type) and not is_key_fit(typed.type):
        raise Untranslatable(f"equality of {typed.type.name}")
    return typed.sql


def is_one_text(typed: Typed) -> bool:
    """Whether equal values print equal text, so that it does not matter which of them stands for a group."""
    if typed.type.name in FLOATS:
        return False
    if typed.elapsed:
        return True
    if typed.type.name == "numeric":
        return not typed.deferred and digits_of(typed) is not None and typed.printed_scale is None
    return is_key_fit(typed.type)


def ordering_key(typed: Typed, scope: Scope) -> str:
    """What Spark orders as PostgreSQL orders the values."""
    _require_value(typed)
    if typed.elapsed:
        return typed.sql
    if typed.type.kind == "e":
        raise Untranslatable("the order of an enum")
    if typed.type.name in _ORDERED_TEXTS:
        require_byte_order(typed.type.collation, scope)
        return equality_key(typed)
    if not is_typed(typed.type) and typed.type.name not in ("numeric", "name"):
        raise Untranslatable(f"the order of {typed.type.name}")
    return equality_key(typed)


def require_byte_order(collation: Collation, scope: Scope) -> None:
    found = scope.collation if collation is Collation.NONE else collation
    if found is not Collation.BYTES:
        raise Untranslatable("the order of a language's collation")


def _require_value(typed: Typed) -> None:
    if typed.deferred:
        raise Untranslatable("a comparison with a quotient")
    if typed.span is not None:
        raise Untranslatable(f"a comparison of {typed.type.name}")
