"""Each function, operator and cast that Spark takes over prints there what PostgreSQL prints."""

from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pytest
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from services.recompute.core.catalog import PgType
from services.recompute.core.rendering import Unrenderable, renderer
from services.recompute.core.sql.forms import canonical_of
from services.recompute.core.sql.typed import Untranslatable
from services.recompute.outbound.spark.session import Spark
from tests.integration.recompute.functions.edges import PINNED, Edges
from tests.integration.recompute.functions.expected import Expression, listed

LISTS = ("arithmetic", "comparisons", "choices", "casts", "texts", "times", "deparsed")
AT_ONCE = 60


class Asked(Struct, frozen=True):
    """An expression, what PostgreSQL answers in which rows, and what it is in Spark."""

    expression: Expression
    rows: list[int]
    answers: list[bytes | None]
    postgres_type: tuple[int, int]
    type: PgType
    canonical: str


def asked(expression: Expression, edges: Edges) -> Asked:
    answers, oid, modifier = edges.answer(expression.sql, expression.where)
    rows = [int(found or b"") for found in edges.answer("id", expression.where)[0]]
    typed = edges.translated(expression.sql)
    return Asked(expression, rows, answers, (oid, modifier), typed.type, canonical_of(typed))


@pytest.fixture(scope="module")
def frame(spark: Spark, edges: Edges) -> Iterator[Callable[[bool], DataFrame]]:
    """The table in Spark, its expressions interpreted or compiled."""
    table = edges.arrow()
    frames = [session.createDataFrame(table).coalesce(1) for session in (spark.small, spark.session)]
    yield lambda compiled: frames[compiled]


def evaluated(frame: DataFrame, questions: list[Asked]) -> list[list[bytes | None]]:
    """For each question what Spark gives in its rows, printed."""
    columns = [
        f"CASE WHEN c_id IN ({', '.join(map(str, one.rows))}) THEN {one.canonical} END AS e{number}"
        for number, one in enumerate(questions)
    ]
    found: pa.Table = frame.selectExpr("c_id", *columns).toArrow().sort_by("c_id")
    ids = found.column("c_id").to_pylist()
    return [
        [
            printed(one.type, value)
            for id_, value in zip(ids, found.column(f"e{number}").to_pylist(), strict=True)
            if id_ in one.rows
        ]
        for number, one in enumerate(questions)
    ]


def printed(type_: PgType, canonical: str | None) -> bytes | None:
    return None if canonical is None else renderer(type_, PINNED)(canonical)


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_spark_prints_what_postgres_prints(name: str, edges: Edges, frame: Callable[[bool], DataFrame]):
    questions = [asked(expression, edges) for expression in listed(name)]
    wrong = {}
    for start in range(0, len(questions), AT_ONCE):
        some = questions[start : start + AT_ONCE]
        for one, found in zip(some, evaluated(frame(False), some), strict=True):
            if (found, (one.type.oid, one.type.modifier)) != (one.answers, one.postgres_type):
                wrong[one.expression.sql] = (found, one.answers, one.type, one.postgres_type)
    assert wrong == {}


@pytest.mark.slow
def test_compiled_expressions_give_what_interpreted_ones_do(edges: Edges, frame: Callable[[bool], DataFrame]):
    questions = [asked(one, edges) for name in LISTS for one in listed(name)[::9]]
    found = [
        values for at in range(0, len(questions), 20) for values in evaluated(frame(True), questions[at : at + 20])
    ]
    assert dict(zip((one.expression.sql for one in questions), found, strict=True)) == {
        one.expression.sql: one.answers for one in questions
    }


@pytest.mark.parametrize("expression", listed("failing"), ids=lambda one: one.sql)
def test_spark_fails_where_postgres_does(expression: Expression, edges: Edges, frame: Callable[[bool], DataFrame]):
    with pytest.raises(psycopg.Error), edges.connection.transaction():
        edges.answer(expression.sql, expression.where)
    typed = edges.translated(expression.sql)
    rows = [int(found or b"") for found in edges.answer("id", expression.where)[0]]
    with pytest.raises((PySparkException, Unrenderable)):
        evaluated(frame(False), [Asked(expression, rows, [], (0, 0), typed.type, canonical_of(typed))])


@pytest.mark.parametrize("expression", listed("refused"), ids=lambda one: one.sql)
def test_what_is_not_known_to_be_equal_is_left_to_postgres(expression: Expression, edges: Edges):
    with edges.connection.transaction(force_rollback=True):
        edges.answer(expression.sql, expression.where)
    with pytest.raises(Untranslatable):
        canonical_of(edges.translated(expression.sql))
