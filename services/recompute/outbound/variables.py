"""Tuples as variables of a session: arrays that an expression can go through without a join."""

from collections import OrderedDict

from pyspark.sql import SparkSession

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType
from services.recompute.core.storage import spark_type
from services.recompute.outbound.tuples import as_table

KEPT = 256


class Variables:
    """Declares a variable for each set of tuples, and drops the one that was not asked for the longest."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._names: OrderedDict[tuple[tuple[PgType, ...], tuple[ResultRow, ...]], str] = OrderedDict()
        self._declared = 0

    def name(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...]) -> str:
        """The name of an array of structs: q, p1, p2 …"""
        known = self._names.get((types, tuples))
        if known is None:
            if len(self._names) >= KEPT:
                _, oldest = self._names.popitem(last=False)
                self._session.sql(f"DROP TEMPORARY VARIABLE {oldest}")
            known = self._declare(types, tuples)
            self._names[types, tuples] = known
        self._names.move_to_end((types, tuples))
        return known

    def _declare(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...]) -> str:
        self._declared += 1
        name, fields = f"tuples_{self._declared}", ["q INT"]
        fields += [f"p{at + 1} {spark_type(type)}" for at, type in enumerate(types)]
        self._session.createDataFrame(as_table(types, tuples)).createOrReplaceTempView(name)
        self._session.sql(f"DECLARE VARIABLE {name} ARRAY<STRUCT<{', '.join(fields)}>>")
        self._session.sql(f"SET VARIABLE {name} = (SELECT collect_list(struct(*)) FROM {name})")
        self._session.sql(f"DROP VIEW {name}")
        return name
