"""Aggregates that put texts one after the other."""

from collections.abc import Sequence

from services.recompute.core.catalog import PgType
from services.recompute.core.sql.ordering import SortKey
from services.recompute.core.sql.typed import Typed, Untranslatable
from services.recompute.core.storage import quoted

# The array types whose elements print as Spark's text of them, or need no more than quotes.
_ARRAYS = {"int2": 1005, "int4": 1007, "int8": 1016, "text": 1009, "varchar": 1015, "uuid": 2951}
_SPECIAL = """[{},"\\\\ \\t\\n\\r\\x0b\\f]"""


def listed(text: str, separator: str, keys: Sequence[SortKey], *, is_distinct: bool, breaks_ties: bool) -> str:
    """Spark's listagg; ties that PostgreSQL leaves to chance are broken by the text, the same way each time."""
    by = [key.over(key.sql) for key in keys]
    if (breaks_ties and not is_distinct) or not keys:
        by.append(f"{text} ASC NULLS LAST")
    distinct = "DISTINCT " if is_distinct else ""
    return f"listagg({distinct}{text}, {quoted(separator)}) WITHIN GROUP (ORDER BY {', '.join(by)})"


def array_text(typed: Typed) -> tuple[str, PgType]:
    """An element as array_out writes it, and the array's type."""
    oid = _ARRAYS.get(typed.type.name)
    if oid is None or typed.type.kind != "b":
        raise Untranslatable(f"array_agg of {typed.type.name}")
    sql = typed.sql
    if typed.type.name in ("text", "varchar"):
        needs = f"({sql} = '' OR lower({sql}) = 'null' OR {sql} RLIKE {quoted(_SPECIAL)})"
        escaped = f"replace(replace({sql}, '\\\\', '\\\\\\\\'), '\"', '\\\\\"')"
        plain = f"CASE WHEN {needs} THEN concat('\"', {escaped}, '\"') ELSE {sql} END"
    else:
        plain = f"CAST({sql} AS STRING)"
    return f"coalesce({plain}, 'NULL')", PgType(oid, f"_{typed.type.name}", collation=typed.type.collation)
