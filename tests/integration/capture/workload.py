"""A workload whose committed rows are known: savepoints and rollbacks over a keyed and a keyless table."""

import random
from threading import Event, Thread

import psycopg


class Writer:
    """One connection that writes until it is stopped; `committed` lists the rows of what it committed."""

    def __init__(self, dsn: str, number: int, over: Event) -> None:
        self._dsn, self._number, self._over = dsn, number, over
        self._chance = random.Random(number)
        self.committed: list[tuple[str, str]] = []
        self._thread = Thread(target=self._run, name=f"writer {number}", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> "Writer":
        self._thread.start()
        return self

    def join(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                turn = 0
                while not self._over.is_set():
                    turn += 1
                    self._transaction(connection, turn)
        except BaseException as failure:
            self._failure = failure

    def _transaction(self, connection: psycopg.Connection, turn: int) -> None:
        rows: list[tuple[str, str]] = []
        connection.execute("BEGIN")
        for part in range(self._chance.choice((1, 1, 2, 5, 200))):
            mark = f"{self._number}-{turn}-{part}"
            connection.execute("INSERT INTO keyed VALUES (%s, 'first')", (mark,))
            connection.execute("SAVEPOINT maybe")
            connection.execute("INSERT INTO keyless VALUES (%s)", (mark,))
            if self._chance.random() < 0.3:
                connection.execute("ROLLBACK TO maybe")
                rows.append(("keyed", mark))
            else:
                rows += [("keyed", mark), ("keyless", mark)]
        connection.execute("UPDATE keyed SET note = 'again' WHERE mark = %s", (f"{self._number}-{turn}-0",))
        if self._chance.random() < 0.2:
            connection.execute("ROLLBACK")
        else:
            connection.execute("COMMIT")
            self.committed += rows
        if self._chance.random() < 0.1:
            connection.execute("DELETE FROM keyless WHERE mark = %s", (f"{self._number}-{turn}-0",))


class Workload:
    """Several writers at once."""

    def __init__(self, dsn: str, writers: int = 3) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE keyed (mark text PRIMARY KEY, note text)")
            connection.execute("CREATE TABLE keyless (mark text)")
        self._over = Event()
        self._writers = [Writer(dsn, number, self._over) for number in range(writers)]

    def __enter__(self) -> "Workload":
        for writer in self._writers:
            writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for writer in self._writers:
            writer.join()

    def committed(self) -> list[tuple[str, str]]:
        """Every inserted row that was committed, after the end."""
        return [row for writer in self._writers for row in writer.committed]
