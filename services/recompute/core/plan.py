"""The plan of a template: its strategy, what it reads, and the Spark SQL that it runs.

Spark SQL here names its inputs by tokens, which `outbound/spark/evaluation.py` replaces by names and values:

    ⟦t:16384⟧   the table with that oid, its columns called c0, c1 … by their place in catalog.Table.columns,
                stored as core/storage.py says
    ⟦params⟧    the parameter tuples: q INT (number of the tuple), p1, p2 …, stored as the parameters' types are
    ⟦p1⟧ …      the literal of a parameter, where tuples are not shared
    ⟦now⟧       the moment that stands for now(), as a BIGINT literal: microseconds since 2000-01-01 UTC

A value leaves Spark as a STRING in canonical form, which core/rendering.py turns into PostgreSQL's text.
"""

from enum import Enum

from msgspec import Struct

from services.recompute.core.catalog import PgType


class Strategy(Enum):
    ROW_LOCAL = "row-local"
    FULL = "full"
    SOURCE = "source"


class Read(Struct, frozen=True):
    """A table of the log and the places of those of its columns that the result depends on."""

    table: int
    columns: frozenset[int]


class OutputColumn(Struct, frozen=True):
    name: str
    type: PgType


class Narrowing(Struct, frozen=True):
    """A comparison, `row operator tuple`, that holds for every row and tuple that belong together."""

    # =, <, <=, > or >=
    operator: str
    # Over c0, c1 … alone, and over ⟦p1⟧ … alone; Spark sorts both as it compares them.
    of_row: str
    of_tuple: str


class RowLocal(Struct, frozen=True):
    """Each row of one table decides alone. Expressions are over c0, c1 … and tokens of parameters and the moment."""

    table: int
    # True, false or NULL; empty: every row.
    predicate: str
    # One STRING expression for each result column.
    outputs: tuple[str, ...]
    # How the tuples that a row may belong to are found among many.
    narrowing: Narrowing | None = None


class Full(Struct, frozen=True):
    """A SELECT whose result columns are `q INT, ord BIGINT, r ARRAY<STRING>`.

    `ord` is the place in the result's order, NULL where the query has none. With `by_tuple` it holds ⟦p1⟧ … tokens, is
    run once for each tuple, and q is the literal ⟦q⟧; else it reads ⟦params⟧ and gives the rows of all tuples at once.
    """

    sql: str
    by_tuple: bool


class Plan(Struct, frozen=True, kw_only=True):
    strategy: Strategy
    # For each cheaper strategy, why it was not taken.
    why_not: dict[str, str]
    columns: tuple[OutputColumn, ...]
    # Places in the result of a certain key; empty if none is certain.
    key_positions: tuple[int, ...] = ()
    # The query has an ORDER BY at its top.
    ordered: bool = False
    # False: there is no single right answer (float sums, LIMIT without a total order …); it is stored, not rechecked.
    stable: bool = True
    reads_clock: bool = False
    # Depends on something that the log does not show: run again on a timer.
    on_timer: bool = False
    reads: tuple[Read, ...] = ()
    depends_on: frozenset[int] = frozenset()
    # It calls functions that did not come with PostgreSQL, and these may call others by their names.
    calls_strangers: bool = False
    parameter_types: tuple[PgType, ...] = ()
    row_local: RowLocal | None = None
    full: Full | None = None
    # What incremental operators are made of; None where the result depends on more than rows.
    live: Full | None = None
