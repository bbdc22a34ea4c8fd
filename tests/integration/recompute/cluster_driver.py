"""A driver of its own process: loads a table by COPY in the executors' tasks, and evaluates over it there."""

import json
import sys

import msgspec

from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Column, Table
from services.recompute.core.row_changes import NOTHING
from services.recompute.flow.tables.table_loader import cached
from services.recompute.outbound.postgres.table_copy import FORMAT, CopiedTable, TableCopy
from services.recompute.outbound.spark.base_table import schema_text
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark
from tests.integration.recompute.evaluation.tables import INT4, INT8, TEXT, full, row_local

SUM = "SELECT 0 AS q, CAST(NULL AS BIGINT) AS ord, array(CAST(sum(c1) AS STRING)) AS r FROM ⟦t:{oid}⟧"


class OneTable:
    def __init__(self, table, view):
        self._table, self._view = table, view

    def table(self, _oid):
        return self._table

    def key(self, _oid):
        return self._table.key

    def view(self, _oid):
        return self._view

    def changes(self, _oid):
        return NOTHING


def main(master, dsn, oid):
    spark = Spark(master=master, driver_memory="512m", java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    try:
        columns = (Column("id", INT4), Column("amount", INT4), Column("name", TEXT))
        table = Table(oid=oid, schema="public", name="things", columns=columns, key=(0,))
        spark.session.dataSource.register(CopiedTable)
        with TableCopy(Postgres(dsn=dsn), part_bytes=1 << 17).open(table) as (opened, _connection):
            reading = spark.session.read.format(FORMAT).schema(schema_text(table))
            token = msgspec.json.encode(opened.ticket).decode()
            frame, rows = cached(spark.session, reading.option("token", token).load())
        frame.createOrReplaceTempView("things")
        evaluation = Evaluation(spark, OneTable(table, "things"))
        one, total = evaluation.whole(
            [row_local(oid, "c0 = 4711", {"c2": TEXT}), full(SUM.format(oid=oid), INT8)],
        )
        told = {
            "parts": opened.ticket.parts,
            "rows": rows,
            # The driver's own store is counted too.
            "executors": spark.session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
            "name": one.found[0][0][1][0].decode(),
            "sum": int(total.found[0][0][1][0]),
        }
        print(json.dumps(told), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
