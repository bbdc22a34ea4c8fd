"""A table of edge values, and the same table in Spark."""

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pyarrow as pa
from psycopg.pq import Format
from sqlglot import exp

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.dialect.typed import TIMESTAMPTZ, Typed, Untranslatable
from services.recompute.core.storage import arrow_column, parsed_moment

PINNED = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)

SQL = (Path(__file__).parent / "edges.sql").read_text()


class EdgeScope:
    """Names mean columns of the table; there are no parameters but those given."""

    settings: TextSettings = PINNED

    collation = Collation.BYTES

    def __init__(self, columns: dict[str, PgType], now_us: int, parameters: Sequence[Typed] = ()) -> None:
        self._columns, self._now_us, self._parameters = columns, now_us, parameters

    def intercepted(self, node: exp.Expression) -> Typed | None:
        return None

    def column(self, node: exp.Column) -> Typed:
        return Typed(sql=f"c_{node.name}", type=self._columns[node.name])

    def parameter(self, number: int) -> Typed:
        return self._parameters[number - 1]

    def subquery(self, node: exp.Expression) -> Typed:
        raise Untranslatable("subquery")

    def now(self) -> Typed:
        return Typed(sql=f"CAST('{self._now_us}' AS BIGINT)", type=TIMESTAMPTZ, reads_clock=True)


class Edges:
    """The table, on a connection with the pinned settings and in one transaction, so that now() stands still."""

    def __init__(self, connection: psycopg.Connection, sql: str = SQL) -> None:
        self.connection = connection
        for name, value in PINNED_TEXT_SETTINGS.items():
            connection.execute(f"SET \"{name}\" = '{value}'")
        connection.execute(sql.encode())
        found = connection.execute(
            "SELECT attname, atttypid, typname, atttypmod, typtype::text, collname FROM pg_attribute "
            "JOIN pg_type t ON t.oid = atttypid LEFT JOIN pg_collation c ON c.oid = attcollation "
            "WHERE attrelid = 'edges'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        collations = {None: Collation.NONE, "C": Collation.BYTES}
        self.columns = {
            name: PgType(oid, type_, modifier, kind, collations.get(collation, Collation.LANGUAGE))
            for name, oid, type_, modifier, kind, collation in found
        }
        self.now_us = parsed_moment(self.answer("now()", "id = 1")[0][0].decode())

    @property
    def scope(self) -> EdgeScope:
        return EdgeScope(self.columns, self.now_us)

    def answer(self, expression: str, where: str = "true") -> tuple[list[bytes | None], int, int]:
        """What PostgreSQL prints in each row, with the type and its modifier."""
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT {expression} AS x FROM edges WHERE {where} ORDER BY id")
        result = cursor.pgresult
        assert result is not None and result.fformat(0) == Format.TEXT
        return [result.get_value(row, 0) for row in range(result.ntuples)], result.ftype(0), result.fmod(0)

    def arrow(self) -> pa.Table:
        return pa.table({f"c_{name}": arrow_column(t, self.answer(name)[0]) for name, t in self.columns.items()})
