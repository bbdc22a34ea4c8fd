"""How often a connection may subscribe."""

from collections import deque

from services.gateway.errors import SubscribeRefused

WINDOW_S = 1.0


class Rate:
    """At most so many in any second."""

    def __init__(self, per_s: int) -> None:
        self._times: deque[float] = deque(maxlen=per_s)

    def take(self, now_s: float) -> None:
        if len(self._times) == self._times.maxlen and now_s - self._times[0] < WINDOW_S:
            wait_ms = int((WINDOW_S - (now_s - self._times[0])) * 1000) + 1
            raise SubscribeRefused(f"Rate limited: retry after {wait_ms}ms", numbered=False)
        self._times.append(now_s)
