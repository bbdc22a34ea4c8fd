"""PostgreSQL as the one who evaluates: queries are run under a budget, each in the place of its subscriber."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition

import psycopg
from msgspec import Struct

from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, failure
from services.recompute.core.budget import Budget, Due, Turns
from services.recompute.inbound.source_run import Limits, Postponed, Ran, RanBadly, run
from services.recompute.inbound.subscriber import opened, statement, types_of

__all__ = ["Ran", "RanBadly", "Source"]

# While PostgreSQL does not answer, it is tried again so often.
RETRY_S = 1.0
# Where every look at a statement would be written to the server's log, one in this time must do.
REEXAMINE_S = 60.0


class _Connected(Struct):
    connection: psycopg.Connection
    is_quiet: bool
    idle_since_s: float


class _Examined(Struct, frozen=True):
    """All that decides which code a statement runs."""

    role: str
    search_path: tuple[str, ...]
    sql: str
    parameter_types: tuple[int, ...]


class Source:
    """`ask` and `ran` never wait; the runs are in threads of their own, their connections are kept by role."""

    def __init__(self, postgres: Postgres, budget: Budget, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._postgres, self._budget, self._clock = postgres, budget, clock
        self._limits = Limits(budget.statement_timeout_ms, budget.max_rows)
        self._turns = Turns(budget)
        self._queries: dict[bytes, Query] = {}
        self._examined_s: dict[bytes, tuple[_Examined, float]] = {}
        self._idle: dict[str, list[_Connected]] = {}
        self._finished: deque[Ran | RanBadly] = deque()
        self._changed = Condition()
        self._is_closing = False
        # Why PostgreSQL cannot be asked at the moment; empty if it can.
        self.trouble = ""
        self._pool = ThreadPoolExecutor(budget.concurrency, thread_name_prefix="source")
        self._threads = [self._pool.submit(self._work) for _ in range(budget.concurrency)]

    def ask(self, query_id: bytes, query: Query) -> None:
        """An answer is wanted that is newer than this call."""
        with self._changed:
            self._queries[query_id] = query
            self._turns.ask(query_id, query.role)
            self._changed.notify()

    def forget(self, query_id: bytes) -> None:
        with self._changed:
            self._queries.pop(query_id, None)
            self._examined_s.pop(query_id, None)
            self._turns.forget(query_id)

    def ran(self) -> list[Ran | RanBadly]:
        """The answers since the last call; failures of our own are raised."""
        for thread in self._threads:
            if thread.done() and not self._is_closing:
                thread.result()
        with self._changed:
            finished, self._finished = list(self._finished), deque()
            stale = self._take_idle(lambda kept: kept.idle_since_s + self._budget.idle_s < self._clock())
        for kept in stale:
            kept.connection.close()
        return finished

    def close(self) -> None:
        """End when the runs at hand have ended."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._pool.shutdown(wait=True)
        for kept in self._take_idle(lambda _: True):
            kept.connection.close()

    def _work(self) -> None:
        while (due := self._await_turn()) is not None:
            begun_s = self._clock()
            query = self._queries.get(due.query_id)
            answer = None if query is None else self._answer(due, query)
            with self._changed:
                ended_s = self._clock()
                self._turns.end(due.query_id, ended_s - begun_s, ended_s)
                wanted = self._queries.get(due.query_id)
                if answer is not None:
                    self._finished.append(answer)
                elif wanted is not None:
                    self._turns.ask(due.query_id, wanted.role)
                self._changed.notify_all()

    def _await_turn(self) -> Due | None:
        with self._changed:
            while not self._is_closing:
                now_s = self._clock()
                due = self._turns.begin(now_s)
                if due is not None:
                    return due
                self._changed.wait(self._turns.wait_s(now_s))
        return None

    def _answer(self, due: Due, query: Query) -> Ran | RanBadly | None:
        """None: PostgreSQL had nothing to say of the query; ask again."""
        try:
            kept = self._connected(due.role)
        except (PostgresUnreachable, PostgresRefused) as error:
            self._rest(str(error))
            return None
        try:
            answer = self._run(kept, due.query_id, query)
        except Postponed:
            answer = None
        except psycopg.Error as error:
            kept.connection.close()
            self._rest(str(failure(self._postgres, str(error))))
            return None
        self.trouble = ""
        self._keep(due.role, kept)
        return answer

    def _run(self, kept: _Connected, query_id: bytes, query: Query) -> Ran | RanBadly:
        examined = _Examined(query.role, tuple(query.search_path), statement(query), tuple(types_of(query)))
        known, at_s = self._examined_s.get(query_id, (None, 0.0))
        is_examined = not kept.is_quiet and known == examined and self._clock() < at_s + REEXAMINE_S
        answer = run(
            kept.connection,
            query_id,
            query,
            self._limits,
            trusted_owners=self._postgres.trusted_owners,
            is_examined=is_examined,
        )
        if isinstance(answer, Ran) and not is_examined:
            self._examined_s[query_id] = (examined, self._clock())
        return answer

    def _rest(self, trouble: str) -> None:
        self.trouble = trouble
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, RETRY_S)

    def _connected(self, role: str) -> _Connected:
        """One that has served this role, or a new one, for which the oldest of another role makes way."""
        with self._changed:
            mine = self._idle.get(role)
            if mine:
                return mine.pop()
            others = sorted((kept for kepts in self._idle.values() for kept in kepts), key=lambda one: one.idle_since_s)
            leaving = self._take_idle(lambda kept: bool(others) and kept is others[0])
        for kept in leaving:
            kept.connection.close()
        connection, is_quiet = opened(self._postgres)
        return _Connected(connection, is_quiet, self._clock())

    def _keep(self, role: str, kept: _Connected) -> None:
        if kept.connection.closed:
            return
        kept.idle_since_s = self._clock()
        with self._changed:
            self._idle.setdefault(role, []).append(kept)

    def _take_idle(self, leaves: Callable[[_Connected], bool]) -> list[_Connected]:
        taken = [kept for kepts in self._idle.values() for kept in kepts if leaves(kept)]
        self._idle = {
            role: staying
            for role, kepts in self._idle.items()
            if (staying := [kept for kept in kepts if not any(kept is one for one in taken)])
        }
        return taken
