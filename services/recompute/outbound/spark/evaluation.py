"""Runs templates on Spark: many in one job; one that fails does not affect the others."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from proto.rows import ResultRow
from services.recompute.core.assembly import Assembly, Printing, assembly
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.job import Failed, Job, Rows, Signed
from services.recompute.core.plan import RowLocal
from services.recompute.core.rendering import PINNED
from services.recompute.core.row_changes import Changes
from services.recompute.core.storage import arrow_column, canonical
from services.recompute.outbound.spark.answers import matches, numbers, texts
from services.recompute.outbound.spark.attempts import Attempts, Limit, SparkLost, Unit
from services.recompute.outbound.spark.frames import Condition, fused, joined, projected, union
from services.recompute.outbound.spark.prepared import Prepared
from services.recompute.outbound.spark.session import Spark, collected
from services.recompute.outbound.spark.tuples import (
    as_select,
    as_table,
    at_moment,
    columns_read,
    tables_read,
    with_literals,
    with_views,
)
from services.recompute.outbound.spark.variables import Variables

# As many branches of full plans, and as many row-local templates, as a single job takes.
FULL_BRANCHES = 16
ROW_LOCAL_TEMPLATES = 256
# Up to so many pairs of a changed row and a tuple are looked at one by one; more are left to a join.
LOOKS = 1_000_000
KEPT_TUPLE_TABLES = 256
KEPT_PREPARED = 64
KEPT_ASSEMBLIES = 10_000

Keyed: TypeAlias = tuple[ResultRow, ResultRow]
Weighed: TypeAlias = tuple[ResultRow, ResultRow, int]


class TableViews(Protocol):
    """What evaluation needs of the tables."""

    def table(self, oid: int) -> Table: ...

    def key(self, oid: int) -> tuple[int, ...]: ...

    def view(self, oid: int) -> str: ...

    def changes(self, oid: int) -> Changes: ...


class Evaluation:
    """Evaluates jobs over the tables' views, or over the rows that changed; used by one thread at a time."""

    def __init__(
        self,
        spark: Spark,
        tables: TableViews,
        *,
        max_rows: int = 100_000,
        session: SparkSession | None = None,
        limit: Limit = nullcontext,
    ) -> None:
        self._spark, self._tables, self._max_rows = spark, tables, max_rows
        self._session = spark.session if session is None else session
        self._attempts = Attempts(limit, lambda: spark.is_lost)
        self._assemblies: dict[tuple[RowLocal, Table, bytes], Assembly] = {}
        self._variables = Variables(spark.small)
        self._prepared = lru_cache(KEPT_PREPARED)(self._new_prepared)
        self._tuples = lru_cache(KEPT_TUPLE_TABLES)(self._new_tuples)

    def whole(self, jobs: Sequence[Job]) -> list[Rows | Failed]:
        """The results of the templates as the tables' views stand."""
        row_local = [unit for unit in _units(jobs) if unit.job.plan.row_local]
        full = [unit for unit in _units(jobs) if unit.job.plan.full]
        by_rows = self._attempts.answers(row_local, self._whole_row_local, size=ROW_LOCAL_TEMPLATES)
        took_s = self._attempts.took_s
        by_tables = self._attempts.answers(full, self._whole_full, size=FULL_BRANCHES)
        found, took_s = by_rows | by_tables, took_s | self._attempts.took_s
        self.refuse_lost()
        answers: list[Rows | Failed] = []
        for number, job in enumerate(jobs):
            rows = tuple([self._bounded(found[number, at]) for at in range(len(job.tuples))])
            answers.append(_failure(rows) or Rows(rows, took_s.get(number, 0.0)))
        return answers

    def changed(self, jobs: Sequence[Job]) -> list[Signed | Failed]:
        """The changed rows that belong to the results of row-local templates."""
        found = self._attempts.answers(_units(jobs), self._changed, size=ROW_LOCAL_TEMPLATES)
        self.refuse_lost()
        answers: list[Signed | Failed] = []
        for number, job in enumerate(jobs):
            rows = tuple([found[number, at] for at in range(len(job.tuples))])
            answers.append(_failure(rows) or Signed(rows))
        return answers

    def _changed(self, units: Sequence[Unit]) -> list[list[list[Weighed]]]:
        found: list[list[list[Weighed]]] = [[[] for _ in unit.tuples] for unit in units]
        assemblies = [self._assembly(unit.job) for unit in units]
        slots = [(into, assembly) for of_unit, assembly in zip(found, assemblies, strict=True) for into in of_unit]
        conditions = _by_table(units, [assembly.computed for assembly in assemblies])
        with_outputs = any(assembly.computed for assembly in assemblies)
        changes: list[tuple[ResultRow, int, tuple[int, ...]]] = []
        frames: list[DataFrame] = []
        for oid, of_table in conditions.items():
            rows, key = self._tables.changes(oid).rows, self._tables.key(oid)
            if rows:
                arrow = _arrow_changes(self._tables.table(oid), rows, len(changes), of_table)
                frames += self._change_frames(arrow, of_table, with_outputs=with_outputs)
                changes += [(row, weight, key) for row, weight in rows]
        if frames:
            answer = collected(union(frames))
            places = numbers(answer["i"])
            for at, slot, values in matches(answer["m"]):
                row, weight, key = changes[places[at]]
                into, assembly = slots[slot]
                into.append((tuple([row[place] for place in key]), assembly.row(row, values), weight))
        return found

    def _change_frames(
        self, arrow: pa.Table, conditions: Sequence[Condition], *, with_outputs: bool
    ) -> list[DataFrame]:
        rows = self._spark.small.createDataFrame(arrow)
        parted = [one for one in conditions if one.looks(arrow.num_rows) > LOOKS]
        others = [one for one in conditions if one not in parted]
        frames = [self._joined(rows, ["i"], condition, with_outputs=with_outputs) for condition in parted]
        if others:
            arrays = {one.slot: self._array(one) for one in others if one.is_wide}
            expression = fused(others, arrays, with_outputs=with_outputs)
            frames.append(self._prepared(expression, arrow.schema).over(self._spark.small, rows))
        return frames

    def _array(self, condition: Condition) -> str:
        sorted_by = condition.narrowing.of_tuple if condition.narrowing else ""
        return self._variables.name(condition.types, condition.tuples, sorted_by)

    def _joined(
        self, rows: DataFrame, identity: Sequence[str], condition: Condition, *, with_outputs: bool
    ) -> DataFrame:
        tuples = self._tuples(condition.types, condition.tuples)
        return joined(rows, identity, condition, tuples, with_outputs=with_outputs)

    def _whole_row_local(self, units: Sequence[Unit]) -> list[list[list[Keyed]]]:
        found: list[list[list[Keyed]]] = [[[] for _ in unit.tuples] for unit in units]
        printings = [_printing(unit.job) for unit in units]
        slots = [(into, printing) for of_unit, printing in zip(found, printings, strict=True) for into in of_unit]
        conditions = _by_table(units, [unit.job.plan.row_local.outputs for unit in units if unit.job.plan.row_local])
        frames: list[DataFrame] = []
        for number, (oid, of_table) in enumerate(conditions.items()):
            rows = self._session.table(self._tables.view(oid))
            identity = [f"{number} AS t", f"{self._key_texts(oid)} AS k"]
            narrow = [condition for condition in of_table if not condition.is_wide]
            if narrow:
                frames.append(projected(rows, identity, fused(narrow, {}, with_outputs=True)))
            wide = [condition for condition in of_table if condition.is_wide]
            frames += [self._joined(rows, identity, condition, with_outputs=True) for condition in wide]
        answer = collected(union(frames))
        keys = [Printing(self._key_types(oid), PINNED) for oid in conditions]
        row_keys = [keys[at].row(values) for at, values in zip(numbers(answer["t"]), texts(answer["k"]), strict=True)]
        for at, slot, values in matches(answer["m"]):
            into, printing = slots[slot]
            into.append((row_keys[at], printing.row(values)))
        return found

    def _whole_full(self, units: Sequence[Unit]) -> list[list[list[Keyed]]]:
        found: list[list[list[Keyed]]] = [[[] for _ in unit.tuples] for unit in units]
        branches = [
            f"SELECT {number} AS u, q, ord, r FROM ({self._sql(number, unit)})" for number, unit in enumerate(units)
        ]
        answer = collected(self._session.sql(" UNION ALL ".join(branches)))
        if any(unit.job.plan.ordered for unit in units):
            answer = answer.sort_by([("u", "ascending"), ("q", "ascending"), ("ord", "ascending")])
        printings = [_printing(unit.job) for unit in units]
        for number, at, values in zip(numbers(answer["u"]), numbers(answer["q"]), texts(answer["r"]), strict=True):
            found[number][at].append(((), printings[number].row(values)))
        return found

    def _sql(self, number: int, unit: Unit) -> str:
        plan, values = unit.job.plan, unit.values
        assert plan.full is not None
        views = {oid: self._tables.view(oid) for oid in tables_read(plan.full.sql)}
        sql = at_moment(with_views(plan.full.sql, views), unit.job.moment_us)
        if plan.full.by_tuple:
            return with_literals(sql.replace("⟦q⟧", "0"), plan.parameter_types, values[0])
        if "⟦params⟧" not in sql:
            return sql
        if len(values) == 1:
            return sql.replace("⟦params⟧", as_select(plan.parameter_types, values[0]))
        self._session.createDataFrame(as_table(plan.parameter_types, values)).createOrReplaceTempView(
            f"params_{number}"
        )
        return sql.replace("⟦params⟧", f"params_{number}")

    def _key_types(self, oid: int) -> list[PgType]:
        columns = self._tables.table(oid).columns
        return [columns[place].type for place in self._tables.key(oid)]

    def _key_texts(self, oid: int) -> str:
        places = zip(self._tables.key(oid), self._key_types(oid), strict=True)
        return f"CAST(array({', '.join(canonical(type, f'c{place}') for place, type in places)}) AS ARRAY<STRING>)"

    def _assembly(self, job: Job) -> Assembly:
        row_local = job.plan.row_local
        assert row_local is not None
        table, settings = self._tables.table(row_local.table), job.settings.SerializeToString(deterministic=True)
        known = self._assemblies.get((row_local, table, settings))
        if known is None:
            if len(self._assemblies) >= KEPT_ASSEMBLIES:
                self._assemblies.clear()
            known = assembly(row_local.outputs, job.plan.columns, table, job.settings)
            self._assemblies[row_local, table, settings] = known
        return known

    def _new_prepared(self, expression: str, schema: pa.Schema) -> Prepared:
        nothing = self._spark.small.createDataFrame(schema.empty_table())
        return Prepared(projected(nothing, ["i"], expression))

    def _new_tuples(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...]) -> DataFrame:
        return self._spark.small.createDataFrame(as_table(types, tuples))

    def _bounded(self, rows: list[Keyed] | Failed) -> list[Keyed] | Failed:
        if isinstance(rows, Failed) or len(rows) <= self._max_rows:
            return rows
        return Failed(f"more than {self._max_rows} rows")

    def refuse_lost(self) -> None:
        """Raise SparkLost where no job can run any more: then nothing that fails is a template's."""
        if self._spark.is_lost:
            raise SparkLost


def _units(jobs: Sequence[Job]) -> list[Unit]:
    """All tuples of a job together, unless its plan knows one at a time."""
    units: list[Unit] = []
    for number, job in enumerate(jobs):
        places = tuple(range(len(job.tuples)))
        by_tuple = job.plan.full is not None and job.plan.full.by_tuple
        units += [Unit(number, job, (at,)) for at in places] if by_tuple else [Unit(number, job, places)]
    return units


def _by_table(units: Sequence[Unit], computed: Sequence[tuple[str, ...]]) -> dict[int, list[Condition]]:
    """The units as conditions by the table that they read; slots are counted through all tuples of all units."""
    found: dict[int, list[Condition]] = {}
    slot = 0
    for unit, outputs in zip(units, computed, strict=True):
        plan, moment_us = unit.job.plan, unit.job.moment_us
        assert plan.row_local is not None
        condition = Condition(
            predicate=at_moment(plan.row_local.predicate, moment_us),
            computed=tuple([at_moment(output, moment_us) for output in outputs]),
            types=plan.parameter_types,
            tuples=unit.values,
            slot=slot,
            narrowing=plan.row_local.narrowing,
        )
        found.setdefault(plan.row_local.table, []).append(condition)
        slot += len(unit.tuples)
    return found


def _arrow_changes(
    table: Table, rows: Sequence[tuple[ResultRow, int]], first: int, conditions: Iterable[Condition]
) -> pa.Table:
    """The changed rows, numbered from `first` on, with the columns that the conditions read."""
    read = {at for one in conditions for at in columns_read(" ".join((one.predicate, *one.computed)))}
    columns = {"i": pa.array(range(first, first + len(rows)), pa.int32())}
    for at in sorted(read):
        if at < len(table.columns):
            columns[f"c{at}"] = arrow_column(table.columns[at].type, [row[at] for row, _ in rows])
    return pa.table(columns)


def _printing(job: Job) -> Printing:
    return Printing([column.type for column in job.plan.columns], job.settings)


def _failure(rows: Sequence[object]) -> Failed | None:
    """The failure of a job all of whose tuples failed."""
    first = rows[0] if rows else None
    return first if isinstance(first, Failed) and all(isinstance(one, Failed) for one in rows) else None
