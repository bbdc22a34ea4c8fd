"""Runs queries on PostgreSQL within a budget, each under the role and settings of its subscriber."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Condition

import psycopg

from proto.tidewire.v1.queries_pb2 import Query
from services.changelog import barrier
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable
from services.recompute.core.budget import Budget, Due, Turns
from services.recompute.outbound.postgres.source_run import Postponed, Ran, RanBadly, RunLimits, run
from services.recompute.outbound.postgres.subscriber import APPLICATION_NAME, subscriber_of
from services.sqlguard.runners import Runners

__all__ = ["Ran", "RanBadly", "Source"]

# How long to wait before trying again while PostgreSQL does not answer.
RETRY_S = 1.0


class Source:
    """Runs queries in threads of its own; `ask` and `ran` return at once."""

    def __init__(self, postgres: Postgres, budget: Budget, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._postgres, self._budget, self._clock = postgres, budget, clock
        self._limits = RunLimits(budget.statement_timeout_ms, budget.max_rows)
        self._turns = Turns(budget)
        self._queries: dict[bytes, Query] = {}
        self._runners = Runners(postgres, application_name=APPLICATION_NAME)
        self._finished: deque[Ran | RanBadly] = deque()
        self._changed = Condition()
        self._is_closing = False
        self._pool = ThreadPoolExecutor(budget.concurrency, thread_name_prefix="source")
        self._threads = [self._pool.submit(self._work) for _ in range(budget.concurrency)]

    def ask(self, query_id: bytes, query: Query) -> None:
        """Have the query run after this call."""
        with self._changed:
            self._queries[query_id] = query
            self._turns.ask(query_id, subscriber_of(query).login)
            self._changed.notify()

    def forget(self, query_id: bytes) -> None:
        with self._changed:
            self._queries.pop(query_id, None)
            self._turns.forget(query_id)

    def ran(self) -> list[Ran | RanBadly]:
        """The answers since the last call; raises if a thread has died."""
        for thread in self._threads:
            if thread.done() and not self._is_closing:
                thread.result()
        with self._changed:
            finished, self._finished = list(self._finished), deque()
        self._runners.close_stale(self._budget.idle_s)
        return finished

    def close(self) -> None:
        """Wait for the current runs, and end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._pool.shutdown(wait=True)
        self._runners.close()

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
                    self._turns.ask(due.query_id, subscriber_of(wanted).login)
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
        """The answer; None if PostgreSQL could not be asked and the query has to run again."""
        try:
            answer = run(
                self._runners,
                due.query_id,
                query,
                self._limits,
                trusted_owners=self._postgres.trusted_owners,
                emit_barrier=self._emit_barrier,
            )
        except Postponed:
            return None
        except (PostgresUnreachable, PostgresRefused, psycopg.Error):
            self._rest()
            return None
        except Exception as error:  # any other error fails this query only
            return RanBadly(due.query_id, "XX000", f"it could not be run ({type(error).__name__})", None, "", 0)
        return answer

    def _emit_barrier(self) -> str:
        with self._runners.service() as service:
            return barrier.emit(service)

    def _rest(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, RETRY_S)
