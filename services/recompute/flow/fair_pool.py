"""A thread pool that serves logins in turn: one login's backlog delays only its own tasks."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

# Deeply nested statements need deep recursion.
STACK_BYTES = 64 * 1024 * 1024


class FairPool:
    """At most `login_threads` threads work for one login at a time."""

    def __init__(self, threads: int, *, login_threads: int, name: str) -> None:
        self._login_threads = login_threads
        self._changed = threading.Condition()
        # By login in the order of their turns.
        self._waiting: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        self._running: dict[str, int] = {}
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}_{number}", daemon=True) for number in range(threads)
        ]
        before = threading.stack_size(STACK_BYTES)
        for thread in self._threads:
            thread.start()
        threading.stack_size(before)

    def submit(self, login: str, task: Callable[[], Result], *, first: bool = False) -> "Future[Result]":
        """`first`: before the other waiting tasks of the same login."""
        future: Future[Result] = Future()
        with self._changed:
            waiting = self._waiting.setdefault(login, deque())
            (waiting.appendleft if first else waiting.append)((future, task))
            self._changed.notify()
        return future

    @property
    def is_whole(self) -> bool:
        """Whether all threads are alive."""
        return self._is_closed or all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            login, future, task = taken
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(task())
            except BaseException as error:  # as in the standard library: the caller gets the error
                future.set_exception(error)
            finally:
                with self._changed:
                    self._running[login] -= 1
                    if not self._running[login]:
                        del self._running[login]
                    self._changed.notify_all()

    def _take(self) -> tuple[str, Future[Any], Callable[[], Any]] | None:
        with self._changed:
            while not self._is_closed:
                login = next((one for one in self._waiting if self._running.get(one, 0) < self._login_threads), None)
                if login is not None:
                    waiting = self._waiting.pop(login)
                    future, task = waiting.popleft()
                    if waiting:
                        self._waiting[login] = waiting  # behind the other logins
                    self._running[login] = self._running.get(login, 0) + 1
                    return login, future, task
                self._changed.wait()
        return None
