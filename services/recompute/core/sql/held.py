"""Values of one type that must be held the same way in Spark: the branches of CASE, COALESCE and set operations."""

from collections.abc import Sequence

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.sql import numerics
from services.recompute.core.sql.typed import NUMERIC, Typed, Untranslatable, merged_flags
from services.recompute.core.sql.world import retyped
from services.recompute.core.storage import decimal_digits


def alike(parts: Sequence[Typed], wanted: PgType) -> list[Typed]:
    """The parts as PostgreSQL's common type, of which they are already, held the same way."""
    if any(part.span is not None or part.elapsed for part in parts):
        raise Untranslatable("intervals beside each other")
    if wanted.name != "numeric":
        return [retyped(replace(part, text=None), wanted) for part in parts]
    if decimal_digits(wanted) is not None:
        return [retyped(part, wanted) for part in parts]
    if any(part.deferred or numerics.digits_of(part) is None for part in parts):
        return [_as_text(part) for part in parts]
    held = [numerics.as_decimal(part) for part in parts]
    digits = numerics.joint_digits(*(part.digits for part in held if part.digits))
    is_static = len({numerics.scale_sql(part) for part in held if not is_null(part)}) <= 1
    is_static = is_static and all(part.printed_scale is None for part in held)
    return [
        replace(
            part,
            sql=numerics.rescaled(part, digits),
            type=wanted,
            digits=digits,
            printed_scale=None if is_static else numerics.scale_sql(part),
        )
        for part in held
    ]


def is_null(typed: Typed) -> bool:
    return typed.is_constant and typed.sql.startswith("CAST(NULL AS ")


def _as_text(typed: Typed) -> Typed:
    """A numeric that is only printed from here on."""
    return Typed(sql=numerics.numeric_text(typed), type=NUMERIC, deferred=True, **merged_flags(typed))


def case_of(conditions: Sequence[Typed], values: Sequence[Typed]) -> Typed:
    """CASE: one value more than conditions, the last for ELSE."""
    pairs = list(zip(conditions, values[:-1], strict=True))
    sql = _case([(condition.sql, value.sql) for condition, value in pairs], values[-1].sql)
    scale = None
    if any(value.printed_scale is not None for value in values):
        arms = [(condition.sql, numerics.scale_sql(value)) for condition, value in pairs]
        scale = _case(arms, numerics.scale_sql(values[-1]))
    return replace(values[0], sql=sql, printed_scale=scale, text=None, **merged_flags(*conditions, *values))


def first_of(parts: Sequence[Typed]) -> Typed:
    """COALESCE."""
    scale = None
    if any(part.printed_scale is not None for part in parts):
        arms = [(f"{part.sql} IS NOT NULL", numerics.scale_sql(part)) for part in parts[:-1]]
        scale = _case(arms, numerics.scale_sql(parts[-1]))
    sql = f"coalesce({', '.join(part.sql for part in parts)})"
    return replace(parts[0], sql=sql, printed_scale=scale, text=None, **merged_flags(*parts))


def _case(arms: list[tuple[str, str]], otherwise: str) -> str:
    return "(CASE " + "".join(f"WHEN {when} THEN {then} " for when, then in arms) + f"ELSE {otherwise} END)"
