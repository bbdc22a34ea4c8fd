"""The budget for queries that PostgreSQL runs: how many at once, how often, and in which order."""

import math

from msgspec import Struct


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [source] section: queries that PostgreSQL runs itself."""

    statement_timeout_ms: int = 5_000
    # Connections that run at the same time.
    concurrency: int = 2
    # Between the end of a run and the next run of the same query.
    min_interval_s: float = 0.2
    # The part of a connection's time that one query may take: a slow one pauses longer.
    query_share: float = 0.25
    # The part of the connections that one login may use at the same time, whatever roles it sets; one at least.
    role_share: float = 0.5
    # A result with more rows is an error.
    max_rows: int = 100_000
    # A connection that was not used for so long is closed.
    idle_s: float = 30.0

    @property
    def login_concurrency(self) -> int:
        return max(1, math.floor(self.concurrency * self.role_share))

    def pause_s(self, cost_s: float) -> float:
        """How long a query rests after a run that took so long."""
        return max(self.min_interval_s, cost_s * (1 / self.query_share - 1))


class Due(Struct, frozen=True):
    query_id: bytes
    login: str


class Turns:
    """The queue of queries to run: in order of arrival, logins in turn, each query once.

    A query that is asked for while it runs is run again: the run may have begun before the change.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # By login, in the order of asking.
        self._wanted: dict[str, dict[bytes, None]] = {}
        self._running: dict[bytes, str] = {}
        self._rests_until_s: dict[bytes, float] = {}

    def ask(self, query_id: bytes, login: str) -> None:
        self._wanted.setdefault(login, {}).setdefault(query_id)

    def forget(self, query_id: bytes) -> None:
        for wanted in self._wanted.values():
            wanted.pop(query_id, None)
        self._rests_until_s.pop(query_id, None)

    def begin(self, now_s: float) -> Due | None:
        """The query to run now, counted as running; None if none may."""
        if len(self._running) >= self._budget.concurrency:
            return None
        for login, wanted in list(self._wanted.items()):
            if not self._has_room(login):
                continue
            due = next((query_id for query_id in wanted if self._may_begin(query_id, now_s)), None)
            if due is not None:
                del wanted[due]
                self._running[due] = login
                # The login goes to the end of the queue.
                self._wanted.pop(login)
                if wanted:
                    self._wanted[login] = wanted
                return Due(due, login)
        return None

    def end(self, query_id: bytes, cost_s: float, now_s: float) -> None:
        """The run is over; the query pauses before its next run."""
        del self._running[query_id]
        self._rests_until_s[query_id] = now_s + self._budget.pause_s(cost_s)
        for rested in [one for one, until_s in self._rests_until_s.items() if until_s < now_s]:
            if not any(rested in wanted for wanted in self._wanted.values()):
                del self._rests_until_s[rested]

    def wait_s(self, now_s: float) -> float | None:
        """Time until the next query may run; None if that depends on a new request or on the end of a run."""
        rests = [
            self._rests_until_s.get(query_id, now_s)
            for login, wanted in self._wanted.items()
            for query_id in wanted
            if query_id not in self._running and self._has_room(login)
        ]
        if not rests or len(self._running) >= self._budget.concurrency:
            return None
        return max(0.0, min(rests) - now_s)

    def _has_room(self, login: str) -> bool:
        return list(self._running.values()).count(login) < self._budget.login_concurrency

    def _may_begin(self, query_id: bytes, now_s: float) -> bool:
        return query_id not in self._running and self._rests_until_s.get(query_id, 0.0) <= now_s
