"""Parameters in Spark SQL: as literals in the text, or as a table of tuples."""

import re
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType
from services.recompute.core.storage import arrow_column, literal

# Microseconds from 1970 to 2000, where PostgreSQL's moments begin.
_EPOCH_US = 946_684_800_000_000
_PARAMETER = re.compile(r"⟦p(\d+)⟧")
_TABLE = re.compile(r"⟦t:(\d+)⟧")
_COLUMN = re.compile(r"\bc(\d+)\b")


def at_moment(sql: str, moment_us: int) -> str:
    return sql.replace("⟦now⟧", f"{moment_us - _EPOCH_US}L")


@lru_cache(maxsize=20_000)
def with_literals(sql: str, types: tuple[PgType, ...], values: ResultRow) -> str:
    """The text for one tuple; raises Unstorable for a parameter that its type does not hold."""
    return _PARAMETER.sub(lambda found: literal(types[int(found[1]) - 1], values[int(found[1]) - 1]), sql)


def with_columns(sql: str, of: str = "") -> str:
    """The text over a table of tuples, or over one of them that is called `of`."""
    return _PARAMETER.sub(rf"{of}.p\1" if of else r"p\1", sql)


def with_views(sql: str, views: dict[int, str]) -> str:
    return _TABLE.sub(lambda found: views[int(found[1])], sql)


def tables_read(sql: str) -> set[int]:
    return {int(found) for found in _TABLE.findall(sql)}


def columns_read(sql: str) -> set[int]:
    """The columns that an expression may read: c7 inside a text counts too, which does no harm."""
    return {int(found) for found in _COLUMN.findall(sql)}


def as_table(types: tuple[PgType, ...], tuples: Sequence[ResultRow]) -> pa.Table:
    """⟦params⟧: the number of each tuple, and its values."""
    columns = {"q": pa.array(range(len(tuples)), pa.int32())}
    for at, type in enumerate(types):
        columns[f"p{at + 1}"] = arrow_column(type, [values[at] for values in tuples])
    return pa.table(columns)


def as_select(types: tuple[PgType, ...], values: ResultRow) -> str:
    """⟦params⟧ of a single tuple, which the optimiser can look into."""
    named = [f"{literal(type, value)} AS p{at + 1}" for at, (type, value) in enumerate(zip(types, values, strict=True))]
    return f"(SELECT {', '.join(['0 AS q', *named])})"
