"""The Spark session, and the one job that decides which rows belong to which queries."""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from proto.rows import ResultRow
from services.recompute.core.predicate import INTEGERS, Always, Comparison, IsNull, Junction, Negation, Predicate
from services.recompute.core.table import Table, TableColumn

_LOG4J = r"""
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = lines
appender.lines.type = Console
appender.lines.name = lines
appender.lines.target = SYSTEM_ERR
appender.lines.layout.type = PatternLayout
appender.lines.layout.pattern = {"service":"recompute","event":"spark_logged","level":"%p","logger":"%c{1}","message":"%enc{%m}{JSON}","error":"%enc{%ex}{JSON}","time":"%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}"}%n
appender.lines.layout.alwaysWriteExceptions = false
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""  # noqa: E501


class Batch(Struct, frozen=True):
    """Rows of one table, and the conditions to decide on each of them."""

    table: Table
    rows: Sequence[ResultRow]
    predicates: Sequence[Predicate]


class Spark:
    """One long-lived session; it is started and warmed up when this is built."""

    def __init__(self, *, master: str, driver_memory: str, java_options: str) -> None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        self._folder = folder = Path(mkdtemp(prefix="tidewire-spark-"))
        (folder / "log4j2.properties").write_text(_LOG4J)
        options = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties {java_options}"
        settings = {
            "spark.driver.memory": driver_memory,
            "spark.driver.extraJavaOptions": options,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        builder = SparkSession.builder.appName("tidewire recompute").master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        self._session: SparkSession = builder.getOrCreate()
        self._columns: dict[tuple[int, Predicate], Column] = {}
        self._warm_up()

    def matches(self, batches: Sequence[Batch]) -> list[list[list[int]]]:
        """For each batch and each of its predicates, the numbers of the rows for which it is true; one job for all."""
        found: list[list[list[int]]] = [[[] for _ in batch.predicates] for batch in batches]
        frames = [self._frame(number, batch) for number, batch in enumerate(batches) if batch.rows and batch.predicates]
        if not frames:
            return found
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionByName(other)
        answer = frame.toArrow().to_pydict()
        for number, row, predicates in zip(answer["batch"], answer["row"], answer["predicates"], strict=True):
            for predicate in predicates:
                found[number][predicate].append(row)
        return found

    def stop(self) -> None:
        self._session.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _frame(self, number: int, batch: Batch) -> DataFrame:
        positions = sorted({position for predicate in batch.predicates for position in _positions(predicate)})
        arrays: dict[str, Any] = {"row": pa.array(range(len(batch.rows)), pa.int32())}
        for position in positions:
            values = pa.array([row[position] for row in batch.rows], pa.binary())
            arrays[_name(position)] = values.cast(pa.string())
        matching = [
            F.when(self._column(batch.table, predicate), F.lit(index))
            for index, predicate in enumerate(batch.predicates)
        ]
        frame = self._session.createDataFrame(pa.table(arrays))
        return frame.select(
            F.lit(number).alias("batch"), "row", F.array_compact(F.array(*matching)).alias("predicates")
        ).where(F.size("predicates") > 0)

    def _warm_up(self) -> None:
        """The first job loads most of Spark's classes: better now than under the first subscriber."""
        column = TableColumn(name="c", type_oid=23, type_modifier=-1, type_name="int4", deterministic=True)
        table = Table(oid=0, schema="", name="", columns=(column,), key=())
        self.matches([Batch(table, [(b"1",)], [Comparison(0, "=", 1)])] * 2)

    def _column(self, table: Table, predicate: Predicate) -> Column:
        known = self._columns.get((table.oid, predicate))
        if known is None:
            known = self._columns[table.oid, predicate] = _condition(table, predicate)
        return known


def _condition(table: Table, predicate: Predicate) -> Column:
    match predicate:
        case Comparison():
            return _comparison(table, predicate)
        case IsNull(position=position):
            return F.col(_name(position)).isNull()
        case Negation(of=of):
            return ~_condition(table, of)
        case Junction(operator="and"):
            return _condition(table, predicate.left) & _condition(table, predicate.right)
        case Junction():
            return _condition(table, predicate.left) | _condition(table, predicate.right)
        case Always():
            return F.lit(True)


def _comparison(table: Table, comparison: Comparison) -> Column:
    if comparison.value is None:
        return F.lit(None).cast("boolean")
    column, type_name = F.col(_name(comparison.position)), table.columns[comparison.position].type_name
    if type_name in INTEGERS:
        column, value = column.cast("bigint"), F.lit(comparison.value).cast("bigint")
    elif type_name == "bool":
        value = F.lit("t" if comparison.value else "f")
    else:
        value = F.lit(comparison.value)
    match comparison.operator:
        case "=":
            return column == value
        case "<>":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case _:
            return column >= value


def _positions(predicate: Predicate) -> Iterable[int]:
    match predicate:
        case Comparison(position=position) | IsNull(position=position):
            yield position
        case Negation(of=of):
            yield from _positions(of)
        case Junction():
            yield from _positions(predicate.left)
            yield from _positions(predicate.right)


def _name(position: int) -> str:
    return f"c{position}"
