"""A projection that is parsed and analysed once, and run over other rows each time."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Prepared:
    """Spark resolves the names of a hundred templates in far more time than it evaluates them over a few rows.

    `frame` must be a filter over a projection of local rows.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._filter: Any = _plan(frame)
        self._projection: Any = self._filter.children().head()
        self._relation: Any = self._projection.children().head()

    def over(self, session: SparkSession, rows: DataFrame) -> DataFrame:
        """The same over rows with the same columns."""
        jvm: Any = session._jvm
        local = _plan(rows)
        relation = local.copy(self._relation.output(), local.data(), local.isStreaming(), local.stream())
        projection = self._projection.withNewChildren(_sequence(jvm, relation))
        plan = self._filter.withNewChildren(_sequence(jvm, projection))
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _sequence(jvm: Any, item: Any) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq([item])
