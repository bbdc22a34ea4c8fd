"""Numeric values as DECIMAL: which digits an operation needs, and with how many PostgreSQL prints its result."""

from services.recompute.core.sql.typed import INTEGERS, NUMERIC, Typed, Untranslatable, merged_flags
from services.recompute.core.storage import decimal_digits

MOST_DIGITS = 38
_INTEGER_DIGITS = {"int2": 5, "int4": 10, "int8": 19}
# What a numeric without a modifier is read as: wide for comparing, narrow where products must fit.
WIDE = (36, 18)
NARROW = (20, 8)
# The end of a text in a regular expression of Java's, in Spark's quotes; $ would let a last line break pass.
END = "\\\\z"


def digits_of(typed: Typed) -> tuple[int, int] | None:
    """The DECIMAL(precision, scale) that a number is or fits; None: it is only known as text."""
    if typed.digits is not None:
        return typed.digits
    if typed.type.name in INTEGERS:
        return _INTEGER_DIGITS[typed.type.name], 0
    return decimal_digits(typed.type)


def as_decimal(typed: Typed, unmodified: tuple[int, int] = WIDE) -> Typed:
    """A number as DECIMAL with `digits` set; one known only as text is read, and Spark fails where it is too long."""
    if typed.deferred:
        raise Untranslatable("arithmetic on a quotient")
    digits = digits_of(typed)
    if digits is not None:
        sql = typed.sql if typed.type.name == "numeric" else f"CAST({typed.sql} AS {decimal(digits)})"
        return Typed(sql=sql, type=NUMERIC, digits=digits, printed_scale=typed.printed_scale, **merged_flags(typed))
    precision, scale = unmodified
    fits = f"{typed.sql} RLIKE '^-?[0-9]{{1,{precision - scale}}}([.][0-9]{{1,{scale}}})?{END}'"
    checked = (
        f"CASE WHEN {typed.sql} IS NULL OR {fits} THEN {typed.sql} "
        "ELSE CAST(raise_error('a numeric with too many digits') AS STRING) END"
    )
    point = f"instr({typed.sql}, '.')"
    return Typed(
        sql=f"CAST({checked} AS {decimal(unmodified)})",
        type=NUMERIC,
        digits=unmodified,
        printed_scale=f"(CASE WHEN {point} = 0 THEN 0 ELSE length({typed.sql}) - {point} END)",
        **merged_flags(typed),
    )


def decimal(digits: tuple[int, int]) -> str:
    return f"DECIMAL({digits[0]},{digits[1]})"


def scale_sql(typed: Typed) -> str:
    """Spark SQL for the number of digits that PostgreSQL prints after the point."""
    if typed.printed_scale is not None:
        return typed.printed_scale
    digits = digits_of(typed)
    assert digits is not None
    return str(digits[1])


def joint_digits(*parts: tuple[int, int]) -> tuple[int, int]:
    """What holds every value of each."""
    scale = max(scale for _, scale in parts)
    return fitting(max(precision - scale for precision, scale in parts) + scale, scale)


def fitting(precision: int, scale: int) -> tuple[int, int]:
    if precision > MOST_DIGITS:
        raise Untranslatable(f"numeric of {precision} digits")
    return precision, scale


def rescaled(typed: Typed, digits: tuple[int, int]) -> str:
    """The value with other digits, which hold it."""
    return typed.sql if typed.digits == digits else f"CAST({typed.sql} AS {decimal(digits)})"


def added(sign: str, left: Typed, right: Typed) -> Typed:
    left, right = as_decimal(left, NARROW), as_decimal(right, NARROW)
    assert left.digits and right.digits
    precision, scale = joint_digits(left.digits, right.digits)
    # One digit to carry into; Spark would give up a digit of the scale for it if there were none left.
    digits = fitting(precision + 1, scale)
    return Typed(
        sql=f"CAST(({left.sql} {sign} {right.sql}) AS {decimal(digits)})",
        type=NUMERIC,
        digits=digits,
        printed_scale=_greater_scale(left, right),
        **merged_flags(left, right),
    )


def multiplied(left: Typed, right: Typed) -> Typed:
    left, right = as_decimal(left, NARROW), as_decimal(right, NARROW)
    assert left.digits and right.digits
    digits = (left.digits[0] + right.digits[0], left.digits[1] + right.digits[1])
    fitting(digits[0] + 1, digits[1])
    is_static = left.printed_scale is None and right.printed_scale is None
    return Typed(
        sql=f"CAST(({left.sql} * {right.sql}) AS {decimal(digits)})",
        type=NUMERIC,
        digits=digits,
        printed_scale=None if is_static else f"({scale_sql(left)} + {scale_sql(right)})",
        **merged_flags(left, right),
    )


def divided(left: Typed, right: Typed) -> Typed:
    """A quotient, which only core/rendering.py can finish: its scale depends on the digits of both."""
    return Typed(
        sql=f"concat({numeric_text(left)}, ' ', {numeric_text(right)}, ' /')",
        type=NUMERIC,
        deferred=True,
        **merged_flags(left, right),
    )


def remainder(left: Typed, right: Typed) -> Typed:
    left, right = as_decimal(left, NARROW), as_decimal(right, NARROW)
    assert left.digits and right.digits
    digits = joint_digits(left.digits, right.digits)
    return Typed(
        sql=f"CAST(({rescaled(left, digits)} % {rescaled(right, digits)}) AS {decimal(digits)})",
        type=NUMERIC,
        digits=digits,
        printed_scale=_greater_scale(left, right),
        **merged_flags(left, right),
    )


def rounded(typed: Typed, places: int, *, truncates: bool = False) -> Typed:
    """round(x, places) or trunc(x, places): half away from zero, or towards it."""
    if typed.deferred:
        if truncates:
            raise Untranslatable("trunc of a quotient")
        return Typed(sql=f"concat({typed.sql}, ' {places} round')", type=NUMERIC, deferred=True, **merged_flags(typed))
    typed = as_decimal(typed)
    assert typed.digits
    precision, scale = typed.digits
    wanted = max(places, 0)
    if places >= scale:
        # Zeros are only printed: the value has no more digits than before.
        digits = fitting(precision - scale + wanted, wanted)
        return Typed(sql=rescaled(typed, digits), type=NUMERIC, digits=digits, **merged_flags(typed))
    digits = fitting(min(max(precision - scale, 0) + wanted + 1, MOST_DIGITS), wanted)
    if places < 0 and -places > precision:
        raise Untranslatable(f"round to {places} places")
    x = typed.sql
    sql = (
        f"CASE WHEN {x} < 0 THEN ceil({x}, {places}) ELSE floor({x}, {places}) END"
        if truncates
        else f"round({x}, {places})"
    )
    return Typed(sql=f"CAST({sql} AS {decimal(digits)})", type=NUMERIC, digits=digits, **merged_flags(typed))


def numeric_text(typed: Typed) -> str:
    """The text that PostgreSQL prints for a number, as Spark SQL; of a quotient, what rendering.py makes it from."""
    if typed.deferred or (typed.type.name == "numeric" and digits_of(typed) is None):
        return typed.sql
    if typed.printed_scale is None:
        return f"CAST({typed.sql} AS STRING)"
    assert typed.digits
    scale, text, printed = typed.digits[1], f"CAST({typed.sql} AS STRING)", typed.printed_scale
    if scale == 0:
        return text
    return f"left({text}, length({text}) - CASE WHEN {printed} = 0 THEN {scale + 1} ELSE {scale} - {printed} END)"


def _greater_scale(left: Typed, right: Typed) -> str | None:
    """The scale that is printed for a sum: the greater one, known beforehand if the one that never changes is."""
    assert left.digits and right.digits
    if left.printed_scale is None and right.printed_scale is None:
        return None
    for fixed, other in ((left, right), (right, left)):
        if fixed.printed_scale is None and fixed.digits and other.digits and fixed.digits[1] >= other.digits[1]:
            return None
    return f"greatest({scale_sql(left)}, {scale_sql(right)})"
