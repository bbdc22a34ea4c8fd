"""What is planned for Spark gives PostgreSQL's answer, to the byte."""

import secrets
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from proto.rows import ResultRow
from services.recompute.core.plan import Plan, Strategy
from services.recompute.outbound.spark.session import Spark
from tests.fixtures.postgres import PostgresServer
from tests.integration.recompute.planning import corpus
from tests.integration.recompute.planning.bench import Asked, Bench


def asked(kind: str) -> list[Asked]:
    return [Asked(sql) for sql, _ in corpus.queries(kind)]


def asked_with_tuples(kind: str) -> list[Asked]:
    return [Asked(sql, corpus.tuples(comment)) for sql, comment in corpus.queries(kind)]


@pytest.fixture(scope="module")
def bench(postgres_server: PostgresServer) -> Iterator[Bench]:
    name = f"planning_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(corpus.SETUP)
    spark = Spark(master="local[2]", driver_memory="1g", java_options="", incremental=True)
    # Compiling a job over ten rows takes far longer than running it.
    spark.session.conf.set("spark.sql.codegen.wholeStage", "false")
    spark.session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield Bench(spark, dsn)
    spark.stop()
    postgres_server.drop_database(name)


def wrong(bench: Bench, questions: list[Asked], plans: list[Plan]) -> list[str]:
    found: list[str] = []
    for one, planned, answer in zip(questions, plans, bench.answers(questions, plans), strict=True):
        right = bench.right(one)
        if isinstance(answer, str):
            found.append(f"{one.sql}: {answer}")
        elif not all(alike(planned, ours, theirs) for ours, theirs in zip(answer, right, strict=True)):
            found.append(f"{one.sql}: {answer} instead of {right}")
    return found


def alike(planned: Plan, ours: list[ResultRow], theirs: list[ResultRow]) -> bool:
    return ours == theirs if planned.ordered else Counter(ours) == Counter(theirs)


def test_row_local_queries_answer_as_postgres_does(bench: Bench) -> None:
    questions = asked("row_local")
    plans = bench.plans(questions)
    assert [(one.sql, p.why_not) for one, p in zip(questions, plans, strict=True) if p.row_local is None] == []
    assert wrong(bench, questions, plans) == []


def test_full_queries_answer_as_postgres_does(bench: Bench) -> None:
    questions = asked("full")
    plans = bench.plans(questions)
    assert [(one.sql, p.why_not) for one, p in zip(questions, plans, strict=True) if p.full is None] == []
    assert wrong(bench, questions, plans) == []


def test_all_tuples_of_a_template_are_answered_at_once(bench: Bench) -> None:
    questions = asked_with_tuples("shared")
    plans = bench.plans(questions)
    assert [
        (one.sql, p.why_not)
        for one, p in zip(questions, plans, strict=True)
        if p.row_local is None and (p.full is None or p.full.by_tuple)
    ] == []
    assert wrong(bench, questions, plans) == []


def test_tuples_of_other_templates_are_answered_one_by_one(bench: Bench) -> None:
    questions = asked_with_tuples("by_tuple")
    plans = bench.plans(questions)
    assert [
        (one.sql, p.why_not) for one, p in zip(questions, plans, strict=True) if not (p.full and p.full.by_tuple)
    ] == []
    assert wrong(bench, questions, plans) == []


def test_a_filter_holds_over_the_result(bench: Bench) -> None:
    questions = [Asked(sql, ((),), condition) for sql, condition in corpus.queries("filtered")]
    plans = bench.plans(questions)
    assert [p.strategy for p in plans] == [Strategy.ROW_LOCAL, Strategy.FULL, Strategy.FULL]
    assert wrong(bench, questions, plans) == []


def test_what_spark_does_otherwise_is_left_to_postgres(bench: Bench) -> None:
    questions = asked("source")
    plans = bench.plans(questions)
    assert [one.sql for one, p in zip(questions, plans, strict=True) if p.strategy is not Strategy.SOURCE] == []
    assert all(p.why_not["full"] for p in plans)
