"""A subscriber who did nothing wrong, and how long his changes take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from proto.pgwire.live import Ack, Data, PartialData, Refused
from tests.fixtures.full_stack import FullStack
from tests.fixtures.live_client import LiveConnection

# Roles belong to the whole server, on which other folders have a mallory of theirs.
HOSTILE = "poisoner"
ROWS, TOTAL = "SELECT id, v FROM neighbours", "SELECT count(*), sum(v) FROM neighbours"


class PoisonedStack:
    """A whole stack; recompute is started again when it ends, as a supervisor would."""

    def __init__(self, walk: FullStack) -> None:
        self.walk = walk

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self.walk.processes.items()}

    def ended(self) -> list[str]:
        return [name for name, process in self.walk.processes.items() if process.poll() is not None]

    def restart_recompute(self) -> None:
        if self.walk.processes["recompute"].poll() is not None:
            self.walk.start("recompute")

    def log(self, name: str) -> str:
        return self.walk._log(name).read_text(errors="replace")

    @contextmanager
    def hostile(self, role: str = HOSTILE) -> Iterator[LiveConnection]:
        dsn = psycopg.conninfo.make_conninfo(self.walk.gateway_dsn, user=role, password=role)
        connection = LiveConnection(dsn, timeout_s=60.0)
        try:
            yield connection
        finally:
            connection.close()


class Neighbour:
    """Two live results of one small table, by a row and by an aggregate."""

    def __init__(self, stack: PoisonedStack) -> None:
        self._stack = stack
        self._live = [stack.walk.live() for _ in range(2)]
        self._writer = stack.walk.connect()
        for live, sql in zip(self._live, (ROWS, TOTAL), strict=True):
            messages = live.subscribe(sql)
            assert isinstance(next(messages), Ack)
            assert isinstance(next(messages), Data)

    def __enter__(self) -> "Neighbour":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        for live in self._live:
            live.close()

    def change_s(self, within_s: float) -> float:
        """Commit a change; the time until both results show it."""
        began_s = time.monotonic()
        self._writer.execute("UPDATE neighbours SET v = v + 1 WHERE id = 7")
        for live in self._live:
            message = None
            while not isinstance(message, Data | PartialData):
                assert not isinstance(message, Refused), message
                self._stack.restart_recompute()
                left_s = began_s + within_s - time.monotonic()
                assert left_s > 0, f"the neighbour's change did not come within {within_s} s"
                message = live.next_message(min(left_s, 1.0))
        return time.monotonic() - began_s
