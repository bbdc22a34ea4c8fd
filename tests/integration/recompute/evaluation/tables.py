"""Tables for evaluation without a log: rows in PostgreSQL's text, and views of them."""

import pyarrow as pa

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, Column, PgType, Table
from services.recompute.core.job import Job
from services.recompute.core.plan import Full, Narrowing, OutputColumn, Plan, RowLocal, Strategy
from services.recompute.core.rendering import PINNED
from services.recompute.core.row_changes import Changes
from services.recompute.core.storage import arrow_column
from services.recompute.outbound.spark.session import Spark

INT4 = PgType(23, "int4")
INT8 = PgType(20, "int8")
BOOL = PgType(16, "bool")
TEXT = PgType(25, "text", collation=Collation.BYTES)
NUMERIC = PgType(1700, "numeric", modifier=((10 << 16) | 2) + 4)
TIMESTAMPTZ = PgType(1184, "timestamptz")
MOMENT_US = 1_800_000_000_000_000


def table(oid: int, *types: PgType, key: tuple[int, ...] = (0,)) -> Table:
    columns = tuple(Column(f"column_{at}", type) for at, type in enumerate(types))
    return Table(oid=oid, schema="public", name=f"table_{oid}", columns=columns, key=key)


class GivenTables:
    """Holds what it is given."""

    def __init__(self, spark: Spark) -> None:
        self._spark = spark
        self._tables: dict[int, Table] = {}
        self._changes: dict[int, Changes] = {}

    def hold(self, table: Table, rows: list[ResultRow], changed: list[tuple[ResultRow, int]] | None = None) -> None:
        columns = {
            f"c{at}": arrow_column(column.type, [row[at] for row in rows]) for at, column in enumerate(table.columns)
        }
        self._spark.session.createDataFrame(pa.table(columns)).createOrReplaceTempView(self.view(table.oid))
        self._tables[table.oid] = table
        self._changes[table.oid] = Changes([], changed or [])

    def table(self, oid: int) -> Table:
        return self._tables[oid]

    def key(self, oid: int) -> tuple[int, ...]:
        return self._tables[oid].key

    def view(self, oid: int) -> str:
        return f"given_{oid}"

    def changes(self, oid: int) -> Changes:
        return self._changes[oid]


def row_local(
    oid: int,
    predicate: str,
    outputs: dict[str, PgType],
    *,
    parameters: tuple[PgType, ...] = (),
    tuples: tuple[ResultRow, ...] = ((),),
    settings: TextSettings = PINNED,
    narrowing: Narrowing | None = None,
) -> Job:
    plan = Plan(
        strategy=Strategy.ROW_LOCAL,
        why_not={},
        columns=tuple(OutputColumn(f"column_{at}", type) for at, type in enumerate(outputs.values())),
        parameter_types=parameters,
        row_local=RowLocal(oid, predicate, tuple(outputs), narrowing),
    )
    return Job(plan=plan, settings=settings, tuples=tuples, moment_us=MOMENT_US)


def full(
    sql: str,
    *types: PgType,
    by_tuple: bool = False,
    ordered: bool = False,
    parameters: tuple[PgType, ...] = (),
    tuples: tuple[ResultRow, ...] = ((),),
) -> Job:
    plan = Plan(
        strategy=Strategy.FULL,
        why_not={},
        columns=tuple(OutputColumn(f"column_{at}", type) for at, type in enumerate(types)),
        ordered=ordered,
        parameter_types=parameters,
        full=Full(sql, by_tuple),
    )
    return Job(plan=plan, settings=PINNED, tuples=tuples, moment_us=MOMENT_US)
