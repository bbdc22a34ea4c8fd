"""Plans queries as a worker does and runs them on Spark, beside PostgreSQL's own answers."""

import time
from collections.abc import Sequence

import psycopg
from msgspec import Struct
from psycopg.pq import ExecStatus

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import Parameter, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Table, Union
from services.recompute.core.job import Failed, Job
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark
from tests.oracle.local import HeldTables
from tests.oracle.local import without_obstacles as watched

SETTINGS = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)


class Asked(Struct, frozen=True):
    sql: str
    tuples: tuple[tuple[str | None, ...], ...] = ((),)
    filter: str = ""

    @property
    def whole(self) -> str:
        return f"SELECT * FROM ({self.sql}) AS result WHERE ({self.filter})" if self.filter else self.sql


class Bench:
    """One database on one Spark session."""

    def __init__(self, spark: Spark, dsn: str) -> None:
        self._postgres = Postgres(dsn=dsn, superusers_subscribe=True)
        self._dsn = dsn
        self._tables = HeldTables(spark, self._postgres)
        self._evaluation = Evaluation(spark, self._tables)

    def plans(self, asked: Sequence[Asked]) -> list[Plan]:
        found: list[Plan] = []
        with CatalogReader(self._postgres) as reader:
            for one in asked:
                query = Query(
                    sql=one.sql,
                    template_sql=one.sql,
                    parameters=[Parameter() for _ in one.tuples[0]],
                    filter=one.filter,
                    role="postgres",
                    search_path=["public"],
                    text_settings=SETTINGS,
                )
                described = watched(reader.describe(query))
                planned = plan(one.sql, one.filter, described, SETTINGS)
                found.append(planned)
                for relation in described.relations.values():
                    for table in relation.members if isinstance(relation, Union) else (relation,):
                        if isinstance(table, Table) and planned.strategy is not Strategy.SOURCE:
                            self._tables.take(table)
        return found

    def answers(self, asked: Sequence[Asked], plans: Sequence[Plan]) -> list[list[list[ResultRow]] | str]:
        """For each its rows for each tuple, or what Spark said instead."""
        jobs = [
            Job(
                plan=planned,
                settings=SETTINGS,
                tuples=tuple(tuple(None if v is None else v.encode() for v in values) for values in one.tuples),
                moment_us=time.time_ns() // 1000,
            )
            for one, planned in zip(asked, plans, strict=True)
        ]
        found: list[list[list[ResultRow]] | str] = []
        for answer in self._evaluation.whole(jobs):
            if isinstance(answer, Failed):
                found.append(answer.reason)
                continue
            failed = [one.reason for one in answer.found if isinstance(one, Failed)]
            found.append(failed[0] if failed else [[row for _, row in rows] for rows in answer.found])
        return found

    def right(self, asked: Asked) -> list[list[ResultRow]]:
        """PostgreSQL's answers."""
        found: list[list[ResultRow]] = []
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            for values in asked.tuples:
                given = [None if value is None else value.encode() for value in values]
                result = connection.pgconn.exec_params(asked.whole.encode(), given or None)
                assert result.status == ExecStatus.TUPLES_OK, (asked, result.error_message)
                width = range(result.nfields)
                found.append([tuple(result.get_value(row, at) for at in width) for row in range(result.ntuples)])
        return found
