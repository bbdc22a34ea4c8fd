"""Plays the steps of a case on a database, and notes PostgreSQL's answers after every commit."""

from collections.abc import Callable, Sequence

import psycopg
from msgspec import Struct

from tests.oracle.answers import Answer, ask
from tests.oracle.case import Question, Step

# Tells that a commit has been worked on; no question reads it.
PULSE = "pulse"
RESET = """
DO $$ DECLARE one record; BEGIN
    FOR one IN SELECT format('DROP %s IF EXISTS %s CASCADE',
            CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, c.oid::regclass)
            AS statement
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('public', 'billing') AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition
        ORDER BY c.relkind DESC LOOP
        EXECUTE one.statement;
    END LOOP;
    FOR one IN SELECT format('DROP TYPE IF EXISTS %s CASCADE', t.oid::regtype) AS statement
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE n.nspname IN ('public', 'billing') AND t.typtype = 'e' LOOP
        EXECUTE one.statement;
    END LOOP;
    DROP SCHEMA IF EXISTS billing;
END $$
"""


class Moment(Struct, frozen=True):
    """The state after a commit: its transaction, none for the state at the start, and the answer to each question."""

    xid: int | None
    answers: tuple[Answer, ...]
    # Where the WAL stood just after: the commit's place if it left nothing in the log.
    lsn: int = 0


class Play:
    """One database; nobody else writes to it."""

    def __init__(self, dsn: str) -> None:
        self._sessions = {"main": psycopg.connect(dsn, autocommit=True), "long": psycopg.connect(dsn, autocommit=True)}
        self._asking = psycopg.connect(dsn, autocommit=True)
        # A transaction that would wait for the long one is rolled back instead, as an application would do.
        self._sessions["main"].execute("SET lock_timeout = '200ms'")

    def begin(self, setup: Sequence[str]) -> None:
        """The tables of the case, and no others."""
        main = self._sessions["main"]
        main.execute("SET lock_timeout = 0")
        main.execute(RESET)
        for statement in setup:
            main.execute(statement.encode())
        main.execute(f"CREATE TABLE {PULSE} (id int PRIMARY KEY, n int NOT NULL)")
        main.execute(f"INSERT INTO {PULSE} VALUES (1, 0)")
        main.execute("SET lock_timeout = '200ms'")

    def accepted(self, questions: Sequence[Question], most: int) -> tuple[Question, ...]:
        """Those that PostgreSQL takes: a value may be bad, a query may not."""
        fit = (question for question in questions if not ask(self._asking, question).error.startswith(("42", "0A")))
        return tuple(question for question, _ in zip(fit, range(most), strict=False))

    def answers(self, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """In one snapshot."""
        with self._asking.transaction():
            self._asking.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            return tuple(ask(self._asking, question) for question in questions)

    def run(
        self, steps: Sequence[Step], questions: Sequence[Question], after_each: Callable[[int], None]
    ) -> list[Moment]:
        """The states in commit order; `after_each` is told how often the pulse has beaten."""
        moments = [Moment(None, self.answers(questions))]
        beats = 0
        for step in steps:
            xid, beat = self._play(step)
            beats += beat
            if xid is not None:
                lsn = self._lsn()
                moments.append(Moment(xid, self.answers(questions), lsn))
                after_each(beats)
        self._end_long()
        return moments

    def close(self) -> None:
        for session in (*self._sessions.values(), self._asking):
            session.close()

    def _play(self, step: Step) -> tuple[int | None, bool]:
        """The transaction if it committed something, and whether the pulse beat in it."""
        session = self._sessions[step.session]
        if session.info.transaction_status.name == "IDLE":
            session.execute("BEGIN")
        try:
            for statement in step.statements:
                session.execute(statement.encode())
            if not step.end:
                return None, False
            beat = step.session == "main" and step.end == "COMMIT"
            if beat:
                session.execute(f"UPDATE {PULSE} SET n = n + 1")
            found = session.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
            session.execute(step.end.encode())
        except psycopg.Error:
            session.execute("ROLLBACK")
            return None, False
        if found is None or found[0] is None or step.end != "COMMIT":
            return None, False
        return int(found[0]) & 0xFFFFFFFF, beat

    def _lsn(self) -> int:
        found = self._asking.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        assert found is not None
        return int(found[0])

    def _end_long(self) -> None:
        if self._sessions["long"].info.transaction_status.name != "IDLE":
            self._sessions["long"].execute("ROLLBACK")
