"""Tuples as variables of a session: arrays that an expression can go through without a join."""

from collections import OrderedDict

from pyspark.sql import SparkSession

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType
from services.recompute.outbound.spark.tuples import as_table, with_columns

KEPT = 256


class Variables:
    """Declares a variable for each set of tuples, and drops the one that was not asked for the longest."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._names: OrderedDict[tuple[tuple[PgType, ...], tuple[ResultRow, ...], str], str] = OrderedDict()
        self._declared = 0

    def name(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...], sorted_by: str = "") -> str:
        """The name of an array of structs: q, p1, p2 …; `sorted_by` an expression over the tokens, and with it as v.

        Where that is NULL, no comparison with it holds, and the tuple is left out.
        """
        known = self._names.get((types, tuples, sorted_by))
        if known is None:
            if len(self._names) >= KEPT:
                _, oldest = self._names.popitem(last=False)
                self._session.sql(f"DROP TEMPORARY VARIABLE {oldest}")
            known = self._declare(types, tuples, sorted_by)
            self._names[types, tuples, sorted_by] = known
        self._names.move_to_end((types, tuples, sorted_by))
        return known

    def _declare(self, types: tuple[PgType, ...], tuples: tuple[ResultRow, ...], sorted_by: str) -> str:
        self._declared += 1
        name = f"tuples_{self._declared}"
        listed = self._session.createDataFrame(as_table(types, tuples))
        if sorted_by:
            listed = listed.selectExpr(f"{with_columns(sorted_by)} AS v", "*").where("v IS NOT NULL")
        listed = listed.selectExpr("sort_array(collect_list(struct(*))) AS listed")
        listed.createOrReplaceTempView(name)
        self._session.sql(f"DECLARE VARIABLE {name} {listed.schema['listed'].dataType.simpleString()}")
        self._session.sql(f"SET VARIABLE {name} = (SELECT listed FROM {name})")
        self._session.sql(f"DROP VIEW {name}")
        return name
