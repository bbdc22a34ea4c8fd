"""A case on Spark alone: what is planned there must give PostgreSQL's answer, with the tables as they stand."""

from collections import Counter

import psycopg

from tests.oracle.answers import ask, difference
from tests.oracle.case import Case, Question
from tests.oracle.local import Local, Outcome
from tests.oracle.playing import Play
from tests.oracle.road import Found, Report


def run(local: Local, dsn: str, case: Case) -> Report:
    """After the setup, and once more after all steps."""
    play = Play(dsn)
    report = Report([], Counter())
    try:
        play.begin(case.setup)
        questions = play.accepted(case.questions, len(case.questions))
        for steps in ((), case.steps) if case.steps else ((),):
            report.commits += len(play.run(steps, (), lambda _: None)) - 1
            outcomes = local.outcomes(questions)
            with psycopg.connect(dsn, autocommit=True) as connection:
                for question, outcome in zip(questions, outcomes, strict=True):
                    words = wrong(connection, question, outcome)
                    if words and not any(found.question == question for found in report.wrong):
                        report.wrong.append(Found(question, words))
            report.strategies = Counter(outcome.strategy for outcome in outcomes)
            # What goes to PostgreSQL is not compared with PostgreSQL.
            report.states += sum(outcome.rows is not None for outcome in outcomes)
    finally:
        play.close()
    return report


def wrong(connection: psycopg.Connection, question: Question, outcome: Outcome) -> str:
    if outcome.strategy == "refused":
        return f"refused: {outcome.why}"
    if outcome.rows is None:
        return ""
    return difference(question.check, ask(connection, question), outcome.rows, in_order=outcome.ordered)
