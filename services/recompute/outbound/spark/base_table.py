"""A table in Spark: its cached base, combined with the overlay to a view."""

from collections.abc import Sequence
from itertools import count
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from proto.rows import ResultRow
from services.recompute.core import rendering, storage
from services.recompute.core.catalog import PgType, Table
from services.recompute.core.rendering import PINNED

_FLOATS = ("float4", "float8")
_numbers = count()


class Layer(Protocol):
    """What changed on top of a base: core/overlay.py or core/multiset_overlay.py."""

    hides_base: bool

    def __len__(self) -> int: ...
    def hidden(self) -> list[ResultRow]: ...
    def added(self) -> list[ResultRow]: ...


class BaseTable:
    """One base, which never changes: compaction makes another one.

    `key` are the positions by which the overlay names rows of the base; empty: by all columns.
    """

    def __init__(self, session: SparkSession, table: Table, key: tuple[int, ...]) -> None:
        self._session, self._table, self._key = session, table, key
        self._base: DataFrame | None = None
        self._cached: DataFrame | None = None
        self._prefix = f"tidewire_{table.oid}_{next(_numbers)}"
        self._version = count()
        self._view: str | None = None
        self._named_by = key or tuple(range(len(table.columns)))

    def rest_on(self, cached: DataFrame) -> None:
        """Use a cached frame with the columns c0, c1 … as the base."""
        self._cached, self._base = cached, cached.select(*self._columns())
        self._base.createOrReplaceTempView(self._base_name)

    def view(self, layer: Layer) -> str:
        """The name of a view of base and overlay as they are now."""
        frame = self.frame(layer)
        name = f"{self._prefix}_v{next(self._version)}"
        frame.createGlobalTempView(name)
        self._drop_view()
        self._view = name
        return f"global_temp.{name}"

    def frame(self, layer: Layer) -> DataFrame:
        """Base and overlay as they are now; it stays so while the overlay goes on."""
        if layer.hides_base or self._base is None:
            return rows_frame(self._session, self._table, layer.added())
        if not len(layer):
            return self._base.select("*")
        name = f"{self._prefix}_o"
        self._overlay_frame(layer).createOrReplaceTempView(name)
        columns = ", ".join(self._columns())
        match = self._matching("b", "o")
        return self._session.sql(
            f"SELECT /*+ BROADCAST(o) */ {columns} FROM {self._base_name} b "
            f"LEFT ANTI JOIN (SELECT * FROM {name} WHERE hides) o ON {match} "
            f"UNION ALL SELECT {columns} FROM {name} WHERE lives"
        )

    def rows_of(self, keys: Sequence[ResultRow]) -> list[tuple[ResultRow, ResultRow]]:
        """The base's rows with these keys, in the log's text."""
        self._ask(keys)
        types = [column.type for column in self._table.columns]
        texts = ", ".join(f"{storage.canonical(t, f'b.c{at}')} AS r{at}" for at, t in enumerate(types))
        found = self._session.sql(
            f"SELECT /*+ BROADCAST(o) */ o.n, {texts} FROM {self._base_name} b "
            f"JOIN {self._asked_name} o ON {self._matching('b', 'o')}"
        ).toArrow()
        columns = [_texts(t, found.column(at + 1).to_pylist()) for at, t in enumerate(types)]
        return [(keys[n], row) for n, row in zip(found.column(0).to_pylist(), zip(*columns, strict=True), strict=True)]

    def counts_of(self, rows: Sequence[ResultRow]) -> list[tuple[ResultRow, int]]:
        """How many of each of these rows the base has."""
        self._ask(rows)
        found = self._session.sql(
            f"SELECT /*+ BROADCAST(o) */ o.n, count(*) FROM {self._base_name} b "
            f"JOIN {self._asked_name} o ON {self._matching('b', 'o')} GROUP BY o.n"
        ).toArrow()
        counts = dict(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))
        return [(row, counts.get(n, 0)) for n, row in enumerate(rows)]

    def drop(self) -> None:
        """Forget the views and the base's rows."""
        self._drop_view()
        for name in (self._base_name, f"{self._prefix}_o", self._asked_name):
            self._session._jsparkSession.sessionState().catalog().dropTempView(name)
        if self._cached is not None:
            self._cached.unpersist()
        self._base = self._cached = None

    @property
    def _base_name(self) -> str:
        return f"{self._prefix}_b"

    @property
    def _asked_name(self) -> str:
        return f"{self._prefix}_a"

    def _columns(self) -> list[str]:
        return [f"c{at}" for at in range(len(self._table.columns))]

    def _drop_view(self) -> None:
        # Not by Spark's catalog: dropping a view there takes the cache of the base with it.
        if self._view is not None:
            self._session._jsparkSession.sharedState().globalTempViewManager().remove(self._view)
        self._view = None

    def _matching(self, left: str, right: str) -> str:
        """Whether two rows are the same to the overlay: by the key, or by every value."""
        types = [self._table.columns[at].type for at in self._named_by]
        operator = "=" if self._key else "<=>"
        return " AND ".join(
            f"{_comparand(t, f'{left}.c{at}')} {operator} {_comparand(t, f'{right}.c{at}')}"
            for at, t in zip(self._named_by, types, strict=True)
        )

    def _ask(self, named: Sequence[ResultRow]) -> None:
        columns = {
            f"c{at}": storage.arrow_column(self._table.columns[at].type, [row[place] for row in named])
            for place, at in enumerate(self._named_by)
        }
        numbered = pa.table({"n": pa.array(range(len(named)), pa.int32()), **columns})
        self._session.createDataFrame(numbered).createOrReplaceTempView(self._asked_name)

    def _overlay_frame(self, layer: Layer) -> DataFrame:
        """Rows that live beside the base, and names of rows that it hides, in one frame: each frame costs a call."""
        hidden, added = layer.hidden(), layer.added()
        places = {at: place for place, at in enumerate(self._named_by)}
        columns = {}
        for at, column in enumerate(self._table.columns):
            place = places.get(at)
            named = [None] * len(hidden) if place is None else [row[place] for row in hidden]
            columns[f"c{at}"] = storage.arrow_column(column.type, named + [row[at] for row in added])
        lives = pa.array([False] * len(hidden) + [True] * len(added))
        hides = pa.array([True] * len(hidden) + [False] * len(added))
        return self._session.createDataFrame(pa.table({**columns, "lives": lives, "hides": hides}))


def rows_frame(session: SparkSession, table: Table, rows: Sequence[ResultRow]) -> DataFrame:
    """Rows in the log's text as a frame of c0, c1 …"""
    if not rows:
        return session.createDataFrame([], schema_text(table))
    return session.createDataFrame(arrow_rows(table, rows))


def arrow_rows(table: Table, rows: Sequence[ResultRow]) -> pa.Table:
    return pa.table(
        {f"c{at}": storage.arrow_column(c.type, [row[at] for row in rows]) for at, c in enumerate(table.columns)}
    )


def schema_text(table: Table) -> str:
    return ", ".join(f"c{at} {storage.spark_type(column.type)}" for at, column in enumerate(table.columns))


def _comparand(t: PgType, sql: str) -> str:
    """Floats by their text: 0 and -0 are two rows."""
    return storage.canonical(t, sql) if t.name in _FLOATS else sql


def _texts(t: PgType, canonical: Sequence[str | None]) -> list[bytes | None]:
    if not storage.is_typed(t):
        return [None if text is None else text.encode() for text in canonical]
    render = rendering.renderer(t, PINNED)
    return [None if text is None else render(text) for text in canonical]
