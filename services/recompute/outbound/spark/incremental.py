"""The incremental operators, which live in the JVM beside Spark (operators/*.java): what goes in and what comes out.

A tick is one block of bytes each way, big-endian. In: the number of tables; for each its oid (8 bytes), whether it was
emptied, its changed keys and its changed rows with their weights; the number of templates whose tuples changed; for
each its number and the tuples with their weights. Rows are Arrow streams behind their length. Out, until the end: the
number of a template; 0 for a change, 1 for its first rows, 2 for an error; the rows (tuple, weight, sort key, values)
or the reason. For a table that could not take its changes: its oid, 3 and the reason.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import Struct
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.job import Job
from services.recompute.core.row_changes import Changes
from services.recompute.core.storage import arrow_column, spark_type
from services.recompute.outbound.spark.attempts import Limit
from services.recompute.outbound.spark.deadlines import Overdue
from services.recompute.outbound.spark.session import Spark
from services.recompute.outbound.spark.tuples import tables_read, with_literals, with_views

PARAMETERS = -1
# py4j stalls on answers of 8 to 32 KB: larger ones are left in a file.
DIRECT_BYTES = 4096
# Rules that make plans which are quicker as jobs and mean nothing to operators.
_NOT_APPLIED = ("LimitPushDown", "LimitPushDownThroughWindow", "ConvertToLocalRelation", "PropagateEmptyRelation")
_RULES = "org.apache.spark.sql.catalyst.optimizer."
_INT = struct.Struct(">i")
_ROW = struct.Struct(">iii")
_FLOATS = ("float4", "float8")


class Refused(Exception):
    """The template has no operators, or the engine could not do what it was asked."""


class Moved(Struct, frozen=True):
    """How the results of a template change: for each tuple rows with their weights and sort keys."""

    number: int
    is_first: bool
    rows: list[tuple[int, int, bytes | None, list[bytes | None]]]
    failure: str = ""


class LostTable(Struct, frozen=True):
    """A table that did not take its changes: neither it nor the templates that read it are held any more."""

    oid: int
    reason: str


class Operators:
    """`plan`, `load` and `build` are for a thread beside the loop, all else for the loop; `limit` is that of a tick."""

    def __init__(self, spark: Spark, folder: Path, *, limit: Limit = nullcontext) -> None:
        self._limit = limit
        self._session = spark.session.newSession()
        self._session.conf.set("spark.sql.optimizer.excludedRules", ",".join(_RULES + rule for rule in _NOT_APPLIED))
        jvm: Any = self._session._jvm
        self._engine: Any = jvm.tidewire.Engine(self._session._jsparkSession)
        self._answer = folder / "answer"
        self._engine.answerIn(str(self._answer), DIRECT_BYTES)

    def plan(self, number: int, job: Job, tables: Mapping[int, Table]) -> list[int]:
        """Make the operators of a template; returns the tables that it reads."""
        live = job.plan.live
        assert live is not None
        views = {}
        for oid in tables_read(live.sql):
            columns = [(f"c{at}", spark_type(column.type)) for at, column in enumerate(tables[oid].columns)]
            views[oid] = self._source(f"source_{oid}", oid, columns)
        sql = with_views(live.sql, views)
        if live.by_tuple:
            sql = with_literals(sql.replace("⟦q⟧", "0"), job.plan.parameter_types, job.tuples[0])
        elif "⟦params⟧" in sql:
            types = job.plan.parameter_types
            columns = [("q", "INT"), *((f"p{at + 1}", spark_type(type)) for at, type in enumerate(types))]
            sql = sql.replace("⟦params⟧", self._source(f"tuples_{number}", PARAMETERS, columns))
        with _refusals():
            return [int(oid) for oid in self._engine.plan(number, sql)]

    def load(self, table: Table, frame: DataFrame, most_bytes: int) -> None:
        with _refusals():
            self._engine.load(table.oid, list(table.key), frame._jdf, most_bytes)

    def build(self, number: int) -> None:
        with _refusals():
            self._engine.build(number)

    def pin(self, number: int) -> None:
        with _refusals():
            self._engine.pin(number)

    def drop(self, number: int) -> None:
        with suppress(Py4JJavaError):  # it is not asked for again, whatever is left of it
            self._engine.drop(number)

    def forget(self, oid: int) -> None:
        with suppress(Py4JJavaError):  # a later load takes its place
            self._engine.forget(oid)

    def bytes(self) -> int:
        with _refusals():
            return int(self._engine.bytes())

    def tick(
        self,
        changes: Mapping[int, tuple[Table, Changes]],
        tuples: Mapping[int, tuple[tuple[PgType, ...], Sequence[tuple[int, ResultRow, int]]]],
    ) -> Iterator[Moved | LostTable]:
        """`tuples`: for a template's number the types of its parameters, and tuples with their numbers and weights.

        After Refused nothing is known of what the engine holds.
        """
        request = [_INT.pack(len(changes))]
        for oid, (table, changed) in changes.items():
            request.append(struct.pack(">q?", oid, changed.emptied))
            keys = [[key[place] for key in changed.keys] for place in range(len(table.key))]
            key_types = [table.columns[place].type for place in table.key]
            request.append(_block(key_types, keys, None))
            rows = [[row[at] for row, _ in changed.rows] for at in range(len(table.columns))]
            types = [column.type for column in table.columns]
            request.append(_block(types, rows, [weight for _, weight in changed.rows]))
        request.append(_INT.pack(len(tuples)))
        for number, (parameter_types, signed) in tuples.items():
            values = [[values[at] for _, values, _ in signed] for at in range(len(parameter_types))]
            weights = [weight for _, _, weight in signed]
            request += [_INT.pack(number), _block(parameter_types, values, weights, [q for q, _, _ in signed])]
        with _refusals(), self._limit():
            answer = self._engine.tick(b"".join(request))
        yield from _read(bytes(answer) if answer is not None else self._answer.read_bytes())

    def _source(self, name: str, oid: int, columns: Sequence[tuple[str, str]]) -> str:
        """A view that stands for a table in a plan: no rows, and nothing from which the optimiser could conclude."""
        self._engine.source(name, oid, [one for one, _ in columns], [kind for _, kind in columns])
        return name


@contextmanager
def _refusals() -> Iterator[None]:
    """An error of the engine is a reason to do without it."""
    try:
        yield
    except Py4JJavaError as error:
        raise Refused(_said(error)) from error
    except Overdue as error:
        raise Refused(str(error)) from error


def is_fit(table: Table) -> bool:
    """Whether rows are found by the bytes of their key."""
    return not any(table.columns[place].type.name in _FLOATS for place in table.key)


def _block(
    types: Sequence[PgType],
    columns: Sequence[Sequence[bytes | None]],
    weights: Sequence[int] | None,
    numbers: Sequence[int] | None = None,
) -> bytes:
    if not (weights or (weights is None and columns and columns[0])):
        return _INT.pack(0)
    arrays = [arrow_column(type, column) for type, column in zip(types, columns, strict=True)]
    if numbers is not None:
        arrays.insert(0, pa.array(numbers, pa.int32()))
    if weights is not None:
        arrays.append(pa.array(weights, pa.int32()))
    batch = pa.record_batch(arrays, names=[f"c{at}" for at in range(len(arrays))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = sink.getvalue().to_pybytes()
    return _INT.pack(len(stream)) + stream


def _read(answer: bytes) -> Iterator[Moved | LostTable]:
    at = 0

    def value() -> bytes | None:
        nonlocal at
        (length,) = _INT.unpack_from(answer, at)
        at += 4 + max(length, 0)
        return None if length < 0 else answer[at - length : at]

    while at < len(answer):
        (number,) = _INT.unpack_from(answer, at)
        kind = answer[at + 4]
        at += 5
        if kind in (2, 3):
            reason = (value() or b"").decode() or "no reason"
            yield Moved(number, False, [], failure=reason) if kind == 2 else LostTable(number & 0xFFFFFFFF, reason)
            continue
        (count,) = _INT.unpack_from(answer, at)
        at += 4
        rows: list[tuple[int, int, bytes | None, list[bytes | None]]] = []
        for _ in range(count):
            q, weight, _ = _ROW.unpack_from(answer, at)
            at += 8
            key = value()
            (width,) = _INT.unpack_from(answer, at)
            at += 4
            rows.append((q, weight, key, [value() for _ in range(width)]))
        yield Moved(number, kind == 1, rows)


def _said(error: Py4JJavaError) -> str:
    text = str(error.java_exception.getMessage() or error.java_exception)
    return (text.strip().splitlines() or ["no reason"])[0][:300]
