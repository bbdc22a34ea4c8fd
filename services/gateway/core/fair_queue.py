"""A fair queue: logins take turns, and none has all the threads or an endless queue."""

from collections import Counter, OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """A login has too many checks waiting."""


class FairQueue(Generic[T]):
    """Jobs by login; what `take` gave must be `done`."""

    def __init__(self, *, at_once: int, at_once_a_login: int, waiting_a_login: int) -> None:
        self._at_once, self._at_once_a_login, self._waiting_a_login = at_once, at_once_a_login, waiting_a_login
        # The login that had its turn last stands last.
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._running: Counter[str] = Counter()

    def add(self, login: str, job: T) -> None:
        waiting = self._waiting.setdefault(login, deque())
        if len(waiting) >= self._waiting_a_login:
            raise QueueFull
        waiting.append(job)

    def take(self) -> tuple[str, T] | None:
        """The next one that may begin now."""
        if self._running.total() >= self._at_once:
            return None
        for login, waiting in self._waiting.items():
            if self._running[login] < self._at_once_a_login:
                job = waiting.popleft()
                self._waiting.move_to_end(login)
                if not waiting:
                    del self._waiting[login]
                self._running[login] += 1
                return login, job
        return None

    def done(self, login: str) -> None:
        self._running[login] -= 1
        if not self._running[login]:
            del self._running[login]
