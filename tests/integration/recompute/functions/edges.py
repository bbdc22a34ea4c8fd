"""A table of edge values, and the same table in Spark."""

from pathlib import Path

import psycopg
import pyarrow as pa
from msgspec.structs import replace
from psycopg.pq import Format

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, Described, PgType
from services.recompute.core.certainty import Place
from services.recompute.core.sql.block import Block, Entry
from services.recompute.core.sql.typed import Typed
from services.recompute.core.sql.world import Field, World
from services.recompute.core.storage import arrow_column, parsed_moment
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.facts import numbers_of
from services.recompute.core.tree.reading import read_tree
from services.recompute.outbound.postgres.catalog_relations import Survey
from tests.integration.recompute.tree.descriptions import described

PINNED = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)

SQL = (Path(__file__).parent / "edges.sql").read_text()


class EdgeBlock(Block):
    """A query over the table, whose columns are called c_ and their names in Spark."""

    def __init__(self, world: World, query: n.Query, columns: dict[str, PgType]) -> None:
        super().__init__(world, query, None)
        fields = tuple(Field(Typed(sql=f"c_{name}", type=type_)) for name, type_ in columns.items())
        self.entries[1] = Entry(name="edges", fields=fields)

    def input_at(self, place: Place) -> Typed:
        return self.field_at(place).typed


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

    def translated(self, sql: str) -> Typed:
        """An expression over the table, out of PostgreSQL's tree of it."""
        tree = read_tree(described(self.connection, f"SELECT {sql} AS x FROM edges").rewritten)
        assert isinstance(tree, n.Query)
        survey = Survey(self.connection, role="postgres", role_oid=10, settings={})
        facts = Described(
            relations={},
            parameter_types=(),
            columns=(),
            collation=Collation.BYTES,
            named=survey.named(numbers_of(tree)),
        )
        block = EdgeBlock(World(facts, PINNED, shared=False), tree, self.columns)
        (entry,) = tree.targetList
        assert isinstance(entry, n.TargetEntry)
        typed = block.translate(entry.expr)
        return replace(typed, sql=typed.sql.replace("⟦now⟧", f"CAST('{self.now_us}' AS BIGINT)"))

    def answer(self, expression: str, where: str = "true") -> tuple[list[bytes | None], int, int]:
        """What PostgreSQL prints in each row, with the type and its modifier."""
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT {expression} AS x FROM edges WHERE {where} ORDER BY id")
        result = cursor.pgresult
        assert result is not None and result.fformat(0) == Format.TEXT
        return [result.get_value(row, 0) for row in range(result.ntuples)], result.ftype(0), result.fmod(0)

    def arrow(self) -> pa.Table:
        return pa.table({f"c_{name}": arrow_column(t, self.answer(name)[0]) for name, t in self.columns.items()})
