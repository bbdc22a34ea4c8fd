"""Questions planned and evaluated on Spark in this process, over tables taken from PostgreSQL as they stand."""

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import Owner, Parameter, Subscribe
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.recompute.core import storage
from services.recompute.core.catalog import Described, Relation, Table, Union
from services.recompute.core.job import Failed, Job
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.recompute.outbound.postgres.table_copy import Pages, TableCopy, copy_part
from services.recompute.outbound.spark.attempts import Limit
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark
from services.registry.core.identity import query_of
from services.sqlguard.refusal import Refused
from tests.oracle.answers import text_settings
from tests.oracle.case import Question


class Outcome(Struct, frozen=True):
    """What became of a question. `rows` is None where Spark was not asked or gave up: PostgreSQL is asked then."""

    strategy: str
    why: str = ""
    rows: tuple[ResultRow, ...] | None = None
    ordered: bool = False
    # PostgreSQL always gives the same answer, and now() has no part in it.
    is_settled: bool = True
    sqlstate: str = ""


class HeldTables:
    """Tables as Spark views, without a log."""

    def __init__(self, spark: Spark, postgres: Postgres) -> None:
        self._spark, self._table_copy = spark, TableCopy(postgres)
        self._tables: dict[int, Table] = {}

    def take(self, table: Table) -> None:
        if table.oid in self._tables:
            return
        schema = pa.schema([(f"c{at}", storage.arrow_type(column.type)) for at, column in enumerate(table.columns)])
        with self._table_copy.open(table) as (opened, _):
            batches = list(copy_part(opened.ticket, Pages(0, None)))
        rows = pa.Table.from_batches(batches, schema=schema)
        types = [
            f"CAST(c{at} AS {storage.spark_type(column.type)}) AS c{at}" for at, column in enumerate(table.columns)
        ]
        frame = self._spark.session.createDataFrame(rows).selectExpr(*types)
        frame.createOrReplaceTempView(self.view(table.oid))
        self._tables[table.oid] = table

    def view(self, oid: int) -> str:
        return f"oracle_{oid}"

    def table(self, oid: int) -> Table:
        return self._tables[oid]

    def key(self, oid: int) -> tuple[int, ...]:
        return self._tables[oid].key

    def forget(self) -> None:
        for oid in self._tables:
            self._spark.session.catalog.dropTempView(self.view(oid))
        self._tables = {}


class Local:
    """One database on one Spark session."""

    def __init__(self, spark: Spark, dsn: str, limit: Limit = nullcontext) -> None:
        self._postgres = Postgres(dsn=dsn, superusers_subscribe=True)
        self._tables = HeldTables(spark, self._postgres)
        self._evaluation = Evaluation(spark, self._tables, limit=limit)

    def outcomes(self, questions: Sequence[Question]) -> list[Outcome]:
        """All of them in as few Spark jobs as a worker would need."""
        return self.outcomes_of([query_for(question) for question in questions])

    def outcomes_of(self, queries: Sequence[Query], *, are_tables_as_before: bool = False) -> list[Outcome]:
        if not are_tables_as_before:
            self._tables.forget()
        made: list[Outcome | None] = []
        jobs: dict[bytes, tuple[Job, list[int]]] = {}
        with CatalogReader(self._postgres) as reader:
            for at, query in enumerate(queries):
                planned = self._planned(reader, query)
                values = () if isinstance(planned, Outcome) else _parameters(reader, query, planned)
                refused = next((one for one in (planned, values) if isinstance(one, Outcome)), None)
                made.append(refused)
                if isinstance(planned, Outcome) or isinstance(values, Outcome):
                    continue
                job, places = jobs.get(query.template_id, (None, []))
                tuples = (*job.tuples, values) if job is not None else (values,)
                moment_us = time.time_ns() // 1000
                job = Job(plan=planned, settings=query.text_settings, tuples=tuples, moment_us=moment_us)
                jobs[query.template_id] = job, [*places, at]
        answers = self._evaluation.whole([job for job, _ in jobs.values()])
        for (job, places), answer in zip(jobs.values(), answers, strict=True):
            for number, at in enumerate(places):
                found = answer if isinstance(answer, Failed) else answer.found[number]
                made[at] = _outcome(job.plan, found)
        return [outcome for outcome in made if outcome is not None]

    def strategies(self, questions: Sequence[Question]) -> list[str]:
        """How they are planned; nothing is evaluated."""
        with CatalogReader(self._postgres) as reader:
            planned = [self._planned(reader, query_for(question)) for question in questions]
        return [one.strategy if isinstance(one, Outcome) else one.strategy.value for one in planned]

    def _planned(self, reader: CatalogReader, query: Query) -> Plan | Outcome:
        try:
            described = without_obstacles(reader.describe(query))
        except Refused as refused:
            return Outcome("refused", str(refused), sqlstate=refused.sqlstate)
        try:
            chosen = plan(query.template_sql, query.filter, described, query.text_settings)
        except Exception as stumble:
            # A worker goes on with PostgreSQL, and says so in its log.
            return Outcome("stumbled", repr(stumble))
        if chosen.strategy is Strategy.SOURCE:
            return Outcome("source", "; ".join(dict.fromkeys(chosen.why_not.values())))
        try:
            for table in _tables(described.relations.values()):
                if any(table.oid == read.table for read in chosen.reads):
                    self._tables.take(table)
        except (storage.Unstorable, ValueError) as unfit:
            return Outcome("unfit", str(unfit))
        return chosen


def _parameters(reader: CatalogReader, query: Query, plan: Plan) -> ResultRow | Outcome:
    """The query's values in the text that the log has, as PostgreSQL reads them."""
    given = tuple(one.value if one.HasField("value") else None for one in query.parameters)
    [read] = reader.normalised(query, plan.parameter_types, [given])
    return Outcome("refused", str(read), sqlstate=read.sqlstate) if isinstance(read, Refused) else read


def query_for(question: Question) -> Query:
    """As the registry would write it."""
    values = [None if value is None else value.encode() for value in question.parameters]
    return query_of(
        Subscribe(
            sql=question.sql,
            parameters=[Parameter(value=value) for value in values],
            filter=question.filter,
            owner=Owner(role="postgres", connection_id="oracle"),
            text_settings=text_settings(question),
            search_path=["public"],
        )
    )


def _outcome(chosen: Plan, found: list[tuple[ResultRow, ResultRow]] | Failed) -> Outcome:
    if isinstance(found, Failed):
        return Outcome("gave up", found.reason)
    is_settled = chosen.stable and not chosen.reads_clock
    return Outcome(chosen.strategy.value, "", tuple(row for _, row in found), chosen.ordered, is_settled)


def _tables(relations: Iterable[Relation]) -> Iterable[Table]:
    for relation in relations:
        if isinstance(relation, Union):
            yield from relation.members
        elif isinstance(relation, Table):
            yield relation


def without_obstacles(described: Described) -> Described:
    """No capture watches this database, so that its tables are not in a log; here they need not be."""
    return replace(described, relations={name: _watched(relation) for name, relation in described.relations.items()})


def _watched(relation: Relation) -> Relation:
    if isinstance(relation, Union):
        return replace(relation, members=tuple(replace(member, obstacle="") for member in relation.members))
    return replace(relation, obstacle="") if isinstance(relation, Table) else relation
