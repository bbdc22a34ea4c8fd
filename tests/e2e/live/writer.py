"""An application that changes rows all the time, and knows when it committed which value."""

import threading
import time

import psycopg
from msgspec import Struct

# What one commit changes: so that a thousand changes a second are fifty commits, which any machine can do.
ROWS_A_COMMIT = 20


class Committed(Struct, frozen=True):
    value: int
    at_s: float


class Writer:
    """Changes `ROWS_A_COMMIT` rows of `ticks` in a commit, so many a second; each commit has a value of its own."""

    def __init__(self, dsn: str, rows: int, changes_per_s: int) -> None:
        self._dsn, self._rows, self._pause_s = dsn, rows, ROWS_A_COMMIT / changes_per_s
        self.commits: list[Committed] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    @property
    def changes(self) -> int:
        return ROWS_A_COMMIT * len(self.commits)

    def _run(self) -> None:
        statement = "UPDATE ticks SET n = %s WHERE id BETWEEN %s AND %s"
        due_s = time.monotonic()
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            value = 0
            while not self._ends.is_set():
                value += 1
                first = ROWS_A_COMMIT * value % self._rows
                connection.execute(statement, (value, first, first + ROWS_A_COMMIT - 1))
                self.commits.append(Committed(value, time.monotonic()))
                due_s += self._pause_s
                self._ends.wait(max(0.0, due_s - time.monotonic()))
