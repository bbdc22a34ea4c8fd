"""Runs templates on Spark: all of a kind in one job, and one that fails fails alone."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from proto.rows import ResultRow
from services.recompute.core.assembly import PINNED, Assembly, Printing, assembly
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.changed import Changes
from services.recompute.core.job import Failed, Job, Rows, Signed
from services.recompute.core.plan import RowLocal
from services.recompute.core.storage import arrow_column, canonical
from services.recompute.outbound.answers import matches, numbers, texts
from services.recompute.outbound.attempts import Attempts, Unit
from services.recompute.outbound.frames import Condition, matched, union
from services.recompute.outbound.session import Spark
from services.recompute.outbound.tuples import (
    as_select,
    as_table,
    at_moment,
    columns_read,
    tables_read,
    with_literals,
    with_views,
)

# As many branches of full plans, and as many row-local templates, as a single job takes.
FULL_BRANCHES = 16
ROW_LOCAL_TEMPLATES = 256
KEPT_TUPLE_TABLES = 256
KEPT_ASSEMBLIES = 10_000

Keyed: TypeAlias = tuple[ResultRow, ResultRow]
Weighed: TypeAlias = tuple[ResultRow, ResultRow, int]


class Held(Protocol):
    """The tables, as far as evaluation needs them."""

    def table(self, oid: int) -> Table: ...

    def key(self, oid: int) -> tuple[int, ...]: ...

    def view(self, oid: int) -> str: ...

    def changes(self, oid: int) -> Changes: ...


class SparkLost(Exception):
    """The session is gone, and every job would fail."""

    exit_code, retry = 1, True

    def __init__(self) -> None:
        super().__init__("Spark does not run any more: start again")


class Evaluation:
    """Evaluates jobs over the tables' views, or over the rows that changed."""

    def __init__(self, spark: Spark, tables: Held, *, max_rows: int = 100_000) -> None:
        self._spark, self._tables, self._max_rows = spark, tables, max_rows
        self._attempts = Attempts()
        self._assemblies: dict[tuple[RowLocal, Table, bytes], Assembly] = {}
        self._tuples = lru_cache(KEPT_TUPLE_TABLES)(self._new_tuples)

    def whole(self, jobs: Sequence[Job]) -> list[Rows | Failed]:
        """The results of the templates as the tables' views stand."""
        row_local = [unit for unit in _units(jobs) if unit.job.plan.row_local]
        full = [unit for unit in _units(jobs) if unit.job.plan.full]
        by_rows = self._attempts.answers(row_local, self._whole_row_local, size=ROW_LOCAL_TEMPLATES)
        by_tables = self._attempts.answers(full, self._whole_full, size=FULL_BRANCHES)
        found = by_rows | by_tables
        self._check()
        answers: list[Rows | Failed] = []
        for number, job in enumerate(jobs):
            rows = tuple([self._bounded(found[number, at]) for at in range(len(job.tuples))])
            answers.append(_failure(rows) or Rows(rows))
        return answers

    def changed(self, jobs: Sequence[Job]) -> list[Signed | Failed]:
        """Of the rows that changed, those that belong to the results of row-local templates."""
        found = self._attempts.answers(_units(jobs), self._changed, size=ROW_LOCAL_TEMPLATES)
        self._check()
        answers: list[Signed | Failed] = []
        for number, job in enumerate(jobs):
            rows = tuple([found[number, at] for at in range(len(job.tuples))])
            answers.append(_failure(rows) or Signed(rows))
        return answers

    def _changed(self, units: Sequence[Unit]) -> list[list[list[Weighed]]]:
        found: list[list[list[Weighed]]] = [[[] for _ in unit.tuples] for unit in units]
        slots: list[tuple[list[Weighed], Assembly]] = []
        changes: list[tuple[ResultRow, int, tuple[int, ...]]] = []
        frames: list[DataFrame] = []
        for oid, numbers_of_units in _by_table(units).items():
            rows, key = self._tables.changes(oid).rows, self._tables.key(oid)
            conditions: list[Condition] = []
            for number in numbers_of_units:
                assembled = self._assembly(units[number].job)
                conditions.append(_condition(units[number], assembled.computed, len(slots)))
                slots += [(into, assembled) for into in found[number]]
            if rows:
                frame = self._change_frame(self._tables.table(oid), rows, len(changes), conditions)
                frames += matched(frame, ["i"], conditions, self._tuples)
                changes += [(row, weight, key) for row, weight in rows]
        if frames:
            answer = union(frames).toArrow()
            places = numbers(answer["i"])
            for at, slot, values in matches(answer["m"]):
                row, weight, key = changes[places[at]]
                into, assembled = slots[slot]
                into.append((tuple([row[place] for place in key]), assembled.row(row, values), weight))
        return found

    def _whole_row_local(self, units: Sequence[Unit]) -> list[list[list[Keyed]]]:
        found: list[list[list[Keyed]]] = [[[] for _ in unit.tuples] for unit in units]
        slots: list[tuple[list[Keyed], Printing]] = []
        printings: list[Printing] = []
        frames: list[DataFrame] = []
        for oid, numbers_of_units in _by_table(units).items():
            table, key = self._tables.table(oid), self._tables.key(oid)
            conditions: list[Condition] = []
            for number in numbers_of_units:
                row_local = units[number].job.plan.row_local
                assert row_local is not None
                conditions.append(_condition(units[number], row_local.outputs, len(slots)))
                slots += [(into, _printing(units[number].job)) for into in found[number]]
            types = [table.columns[place].type for place in key]
            keys = ", ".join(canonical(type, f"c{place}") for place, type in zip(key, types, strict=True))
            identity = [f"{len(printings)} AS t", f"CAST(array({keys}) AS ARRAY<STRING>) AS k"]
            frames += matched(self._spark.session.table(self._tables.view(oid)), identity, conditions, self._tuples)
            printings.append(Printing(types, PINNED))
        answer = union(frames).toArrow()
        row_keys = [
            printings[at].row(values) for at, values in zip(numbers(answer["t"]), texts(answer["k"]), strict=True)
        ]
        for at, slot, values in matches(answer["m"]):
            into, printing = slots[slot]
            into.append((row_keys[at], printing.row(values)))
        return found

    def _whole_full(self, units: Sequence[Unit]) -> list[list[list[Keyed]]]:
        found: list[list[list[Keyed]]] = [[[] for _ in unit.tuples] for unit in units]
        branches = [
            f"SELECT {number} AS u, q, ord, r FROM ({self._sql(number, unit)})" for number, unit in enumerate(units)
        ]
        answer = self._spark.session.sql(" UNION ALL ".join(branches)).toArrow()
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
        self._spark.session.createDataFrame(as_table(plan.parameter_types, values)).createOrReplaceTempView(
            f"params_{number}"
        )
        return sql.replace("⟦params⟧", f"params_{number}")

    def _change_frame(
        self, table: Table, rows: Sequence[tuple[ResultRow, int]], first: int, conditions: Iterable[Condition]
    ) -> DataFrame:
        read = {
            at for condition in conditions for at in columns_read(" ".join((condition.predicate, *condition.computed)))
        }
        columns = {"i": pa.array(range(first, first + len(rows)), pa.int32())}
        for at in sorted(read):
            if at < len(table.columns):
                columns[f"c{at}"] = arrow_column(table.columns[at].type, [row[at] for row, _ in rows])
        return self._spark.small.createDataFrame(pa.table(columns))

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

    def _new_tuples(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...]) -> DataFrame:
        return self._spark.small.createDataFrame(as_table(types, tuples))

    def _bounded(self, rows: list[Keyed] | Failed) -> list[Keyed] | Failed:
        if isinstance(rows, Failed) or len(rows) <= self._max_rows:
            return rows
        return Failed(f"more than {self._max_rows} rows")

    def _check(self) -> None:
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


def _by_table(units: Sequence[Unit]) -> dict[int, list[int]]:
    """The units' numbers by the table that they read."""
    found: dict[int, list[int]] = {}
    for number, unit in enumerate(units):
        assert unit.job.plan.row_local is not None
        found.setdefault(unit.job.plan.row_local.table, []).append(number)
    return found


def _condition(unit: Unit, computed: Sequence[str], slot: int) -> Condition:
    plan, moment_us = unit.job.plan, unit.job.moment_us
    assert plan.row_local is not None
    return Condition(
        predicate=at_moment(plan.row_local.predicate, moment_us),
        computed=tuple([at_moment(output, moment_us) for output in computed]),
        types=plan.parameter_types,
        tuples=unit.values,
        slot=slot,
    )


def _printing(job: Job) -> Printing:
    return Printing([column.type for column in job.plan.columns], job.settings)


def _failure(rows: Sequence[object]) -> Failed | None:
    """The failure of a job all of whose tuples failed."""
    first = rows[0] if rows else None
    return first if isinstance(first, Failed) and all(isinstance(one, Failed) for one in rows) else None
