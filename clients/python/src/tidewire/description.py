"""What PostgreSQL says about a query before it is subscribed to: its columns, and where the primary key is in them.

The live messages carry neither names nor keys. A Describe (the query is not run) and a look into pg_index give both.
A key is taken from there only where it is plain: all columns that are a table's are of one table, and its whole primary
key is among them, each column once. Otherwise (joins, views, GROUP BY) updates find their rows by `matching`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidewire.ordinary import Column


@dataclass(frozen=True, slots=True)
class Described:
    columns: tuple[Column, ...] = ()
    # Places of the primary key's columns, where it is plain.
    key: tuple[int, ...] | None = None


def table_of(columns: Sequence[Column]) -> int | None:
    """The one table that the columns are of."""
    tables = {column.table for column in columns if column.table}
    return tables.pop() if len(tables) == 1 else None


def key_sql(table: int) -> str:
    return f"SELECT indkey FROM pg_catalog.pg_index WHERE indrelid = {table} AND indisprimary AND indisvalid"


def key_places(columns: Sequence[Column], key: bytes | None) -> tuple[int, ...] | None:
    """The places of these attribute numbers, if each is there once."""
    numbers = [int(number) for number in (key or b"").split()]
    of_table = [column.number if column.table else 0 for column in columns]
    if not numbers or any(of_table.count(number) != 1 for number in numbers):
        return None
    return tuple(of_table.index(number) for number in numbers)


def places_of(wanted: Sequence[int | str], columns: Sequence[Column]) -> tuple[int, ...]:
    """Columns that a user names by their names or places."""
    return tuple(place_of(one, columns) for one in wanted)


def place_of(wanted: int | str, columns: Sequence[Column]) -> int:
    if isinstance(wanted, int):
        return wanted
    names = [column.name for column in columns]
    if names.count(wanted) != 1:
        found = f"the query has {', '.join(names)}" if names else "the query could not be described"
        raise ValueError(f"{wanted!r} names no one column: {found}; a place (0 is the first) is understood as well")
    return names.index(wanted)
