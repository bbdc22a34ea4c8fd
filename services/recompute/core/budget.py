"""What PostgreSQL may be asked for: how much at once, how often, and whose turn it is."""

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
    # The part of the connections that one role may use at the same time, one at least.
    role_share: float = 0.5
    # A result with more rows is an error.
    max_rows: int = 100_000
    # A connection that was not used for so long is closed.
    idle_s: float = 30.0

    @property
    def role_concurrency(self) -> int:
        return max(1, math.floor(self.concurrency * self.role_share))

    def pause_s(self, cost_s: float) -> float:
        """How long a query rests after a run that took so long."""
        return max(self.min_interval_s, cost_s * (1 / self.query_share - 1))


class Due(Struct, frozen=True):
    query_id: bytes
    role: str


class Turns:
    """Whose turn it is: queries wait in the order in which they came, roles take turns, asking twice is asking once.

    A query that is asked for while it runs is run again: the run may have begun before the change.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        # By role, in the order of asking.
        self._wanted: dict[str, dict[bytes, None]] = {}
        self._running: dict[bytes, str] = {}
        self._rests_until_s: dict[bytes, float] = {}

    def ask(self, query_id: bytes, role: str) -> None:
        self._wanted.setdefault(role, {}).setdefault(query_id)

    def forget(self, query_id: bytes) -> None:
        for wanted in self._wanted.values():
            wanted.pop(query_id, None)
        self._rests_until_s.pop(query_id, None)

    def begin(self, now_s: float) -> Due | None:
        """The query to run now, counted as running; None if none may."""
        if len(self._running) >= self._budget.concurrency:
            return None
        for role, wanted in list(self._wanted.items()):
            if list(self._running.values()).count(role) >= self._budget.role_concurrency:
                continue
            due = next((query_id for query_id in wanted if self._may_begin(query_id, now_s)), None)
            if due is not None:
                del wanted[due]
                self._running[due] = role
                # To the end of the row.
                self._wanted.pop(role)
                if wanted:
                    self._wanted[role] = wanted
                return Due(due, role)
        return None

    def end(self, query_id: bytes, cost_s: float, now_s: float) -> None:
        """The run is over; the query rests, and is forgotten when it has rested unasked."""
        del self._running[query_id]
        self._rests_until_s[query_id] = now_s + self._budget.pause_s(cost_s)
        for rested in [one for one, until_s in self._rests_until_s.items() if until_s < now_s]:
            if not any(rested in wanted for wanted in self._wanted.values()):
                del self._rests_until_s[rested]

    def wait_s(self, now_s: float) -> float | None:
        """How long until a rest ends that somebody waits for; None if only a new ask or an end can change things."""
        rests = [
            self._rests_until_s.get(query_id, now_s)
            for wanted in self._wanted.values()
            for query_id in wanted
            if query_id not in self._running
        ]
        if not rests or len(self._running) >= self._budget.concurrency:
            return None
        return max(0.0, min(rests) - now_s)

    def _may_begin(self, query_id: bytes, now_s: float) -> bool:
        return query_id not in self._running and self._rests_until_s.get(query_id, 0.0) <= now_s
