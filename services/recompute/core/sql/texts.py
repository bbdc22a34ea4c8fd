"""Functions of text, by characters and bytes; those that depend on a language only where it has none."""

from msgspec.structs import replace

from services.recompute.core.catalog import Collation
from services.recompute.core.sql.casts import cast
from services.recompute.core.sql.forms import require_byte_order
from services.recompute.core.sql.numerics import numeric_text
from services.recompute.core.sql.typed import (
    BOOL,
    INT4,
    INTEGERS,
    STRINGS,
    TEXT,
    Scope,
    Typed,
    Untranslatable,
    merged_flags,
)
from services.recompute.core.storage import quoted

# Spark tries every length for each %: each one more is a factor of the text's length.
MOST_WILDCARDS = 3
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def text_of(typed: Typed) -> Typed:
    """An argument of type text."""
    if typed.type.name not in STRINGS:
        raise Untranslatable(f"a text function of {typed.type.name}")
    if typed.type.collation is Collation.LOOSE:
        raise Untranslatable("a nondeterministic collation")
    return cast(typed, replace(TEXT, collation=typed.type.collation))


def int_of(typed: Typed) -> Typed:
    """An argument of type int4."""
    if typed.type.name not in ("int2", "int4"):
        raise Untranslatable(f"a count of type {typed.type.name}")
    return cast(typed, INT4)


def made(sql: str, *parts: Typed) -> Typed:
    return Typed(sql=sql, type=TEXT, **merged_flags(*parts))


def joined(left: Typed, right: Typed) -> Typed:
    """`||`: one side is text, the other is cast to it."""
    names = left.type.name, right.type.name
    if not set(names) & STRINGS:
        raise Untranslatable(f"{names[0]} || {names[1]}")
    parts = tuple(cast(one, TEXT) for one in (left, right))
    return made(f"concat({parts[0].sql}, {parts[1].sql})", *parts)


def concatenated(parts: list[Typed]) -> Typed:
    """concat(): NULL counts as empty, values as their type prints them."""
    return made("concat(" + ", ".join(f"coalesce({_printed(one)}, '')" for one in parts) + ")", *parts)


def concatenated_with(separator: Typed, parts: list[Typed]) -> Typed:
    between = text_of(separator)
    return made(f"concat_ws({between.sql}, " + ", ".join(_printed(one) for one in parts) + ")", between, *parts)


def _printed(typed: Typed) -> str:
    name = typed.type.name
    if name in STRINGS or name in ("unknown", "uuid") or typed.type.kind == "e":
        return typed.sql
    if name == "bool":
        return f"CASE WHEN {typed.sql} THEN 't' WHEN NOT {typed.sql} THEN 'f' END"
    if name in INTEGERS:
        return f"CAST({typed.sql} AS STRING)"
    if name == "numeric" and not typed.deferred:
        return numeric_text(typed)
    raise Untranslatable(f"concat of {name}")


def lowered(typed: Typed, scope: Scope, *, upper: bool = False) -> Typed:
    """In a collation of bytes only the 26 letters have a case."""
    x = text_of(typed)
    require_byte_order(x.type.collation, scope)
    pair = (_UPPER.lower(), _UPPER) if upper else (_UPPER, _UPPER.lower())
    return replace(x, sql=f"translate({x.sql}, '{pair[0]}', '{pair[1]}')")


def like(typed: Typed, pattern: Typed, scope: Scope, *, folds: bool = False, escape: str = "\\") -> Typed:
    """LIKE; Spark fails on an escape before an ordinary sign, which PostgreSQL takes as that sign."""
    if typed.type.name == "bpchar" and folds:
        raise Untranslatable("ILIKE of bpchar")
    # The padding counts on the left, where the operator takes char(n), and not in a pattern, which is a text.
    x, wanted = typed if typed.type.name == "bpchar" else text_of(typed), text_of(pattern)
    if x.type.collation is Collation.LOOSE:
        raise Untranslatable("a nondeterministic collation")
    if folds:
        x, wanted = lowered(x, scope), lowered(wanted, scope)
    if len(escape) != 1:
        raise Untranslatable(f"ESCAPE '{escape}'")
    ending = "" if escape == "\\" else f" ESCAPE {quoted(escape)}"
    searched = wanted.sql if pattern.text is not None else _with_few_wildcards(wanted.sql)
    return Typed(sql=f"({x.sql} LIKE {searched}{ending})", type=BOOL, **merged_flags(x, wanted))


def _with_few_wildcards(sql: str) -> str:
    """A pattern that Spark finds in good time; of others PostgreSQL is asked."""
    many = f"length({sql}) - length(replace({sql}, '%', '')) > {MOST_WILDCARDS}"
    return f"CASE WHEN {many} THEN CAST(raise_error('a pattern of many parts') AS STRING) ELSE {sql} END"


def length(typed: Typed) -> Typed:
    x = text_of(typed)
    return Typed(sql=f"length({x.sql})", type=INT4, **merged_flags(x))


def position(typed: Typed, wanted: Typed) -> Typed:
    x, part = text_of(typed), text_of(wanted)
    return Typed(sql=f"locate({part.sql}, {x.sql})", type=INT4, **merged_flags(x, part))


def starts_with(typed: Typed, prefix: Typed) -> Typed:
    x, part = text_of(typed), text_of(prefix)
    return Typed(sql=f"startswith({x.sql}, {part.sql})", type=BOOL, **merged_flags(x, part))


def substring(typed: Typed, start: Typed, count: Typed | None = None) -> Typed:
    """Places before the first count too; a negative count is an error."""
    x, first = text_of(typed), int_of(start)
    if count is None:
        return made(f"substring({x.sql}, {_at_least(first.sql, 1)})", x, first)
    many = int_of(count)
    begin, end = _at_least(first.sql, 1), f"(CAST({first.sql} AS BIGINT) + {many.sql})"
    # An end before the first place is an empty text, whatever the start.
    taken = f"CAST(least(greatest({end} - {begin}, 0L), 2147483647L) AS INT)"
    checked = f"CASE WHEN {many.sql} < 0 THEN CAST(raise_error('negative substring length') AS INT) ELSE {taken} END"
    known = f"{first.sql} IS NULL OR {many.sql} IS NULL"
    sql = f"CASE WHEN {known} THEN CAST(NULL AS STRING) ELSE substring({x.sql}, {begin}, {checked}) END"
    return made(sql, x, first, many)


def _at_least(sql: str, least: int) -> str:
    """Not greatest(), which passes over NULL."""
    return f"CASE WHEN {sql} < {least} THEN {least} ELSE {sql} END"


def edge(typed: Typed, count: Typed, *, right: bool) -> Typed:
    """left() and right(); a negative count leaves that many off the other end."""
    x, many = text_of(typed), int_of(count)
    # The least integer is its own negative: PostgreSQL's right() leaves nothing off then.
    least = f"WHEN {many.sql} = CAST('-2147483648' AS INT) THEN length({x.sql}) " if right else ""
    kept = f"CASE {least}WHEN {many.sql} < 0 THEN greatest(length({x.sql}) + {many.sql}, 0) ELSE {many.sql} END"
    return made(f"{'right' if right else 'left'}({x.sql}, {kept})", x, many)


def padded(typed: Typed, count: Typed, fill: Typed | None, *, left: bool) -> Typed:
    x, many = text_of(typed), int_of(count)
    with_ = text_of(fill) if fill is not None else Typed(sql="' '", type=TEXT, is_constant=True)
    return made(f"{'lpad' if left else 'rpad'}({x.sql}, {_at_least(many.sql, 0)}, {with_.sql})", x, many, with_)


def trimmed(typed: Typed, signs: Typed | None, where: str) -> Typed:
    x = text_of(typed)
    if signs is None:
        return made(f"trim({where} FROM {x.sql})", x)
    set_ = text_of(signs)
    return made(f"trim({where} {set_.sql} FROM {x.sql})", x, set_)


def called(name: str, *parts: Typed) -> Typed:
    """A function of texts and counts that Spark has under the same name, with the same result."""
    return made(f"{name}({', '.join(part.sql for part in parts)})", *parts)
