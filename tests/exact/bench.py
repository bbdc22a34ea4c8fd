"""The tables of the corpus in a database of their own, and what Spark says of them beside PostgreSQL."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from services.recompute.outbound.spark.session import Spark
from tests.exact import corpus
from tests.fixtures.postgres import PostgresServer
from tests.oracle.answers import ask
from tests.oracle.case import Question
from tests.oracle.local import Local, Outcome
from tests.oracle.planned import wrong


class ExactBench:
    """One database on one Spark session."""

    def __init__(self, spark: Spark, dsn: str) -> None:
        self.dsn = dsn
        self._local = Local(spark, dsn)

    def change(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(corpus.CHANGES.encode())

    def outcomes(self, questions: Sequence[Question]) -> list[Outcome]:
        """All at once; one by one if that ends in an exception, which is then the outcome of its question alone."""
        try:
            return self._local.outcomes(questions)
        except Exception as error:
            if len(questions) == 1:
                return [Outcome("stumbled", repr(error))]
        return [outcome for one in questions for outcome in self.outcomes([one])]

    def left_to_postgres(self, questions: Sequence[Question]) -> list[Question]:
        """Those that are planned for PostgreSQL; nothing is evaluated."""
        strategies = self._local.strategies(questions)
        return [one for one, strategy in zip(questions, strategies, strict=True) if strategy == "source"]

    def wrong(self, questions: Sequence[Question]) -> dict[str, str]:
        """The questions that Spark answers otherwise than PostgreSQL, with what is wrong."""
        found: dict[str, str] = {}
        outcomes = self.outcomes(questions)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for question, outcome in zip(questions, outcomes, strict=True):
                words = wrong(connection, question, outcome)
                if outcome.strategy == "refused" and ask(connection, question).says(outcome.why):
                    words = ""
                if outcome.strategy == "stumbled":
                    words = outcome.why
                if words:
                    found[question.sql] = words
        return found


@contextmanager
def exact_bench(spark: Spark, server: PostgresServer) -> Iterator[ExactBench]:
    name = f"exact_{secrets.token_hex(4)}"
    dsn = server.create_database(name)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(corpus.SETUP.encode())
        yield ExactBench(spark, dsn)
    finally:
        server.drop_database(name)
