"""How often a connection may subscribe, and how many subscribes of it may be looked at at once."""

from collections import deque

from services.gateway.errors import SubscribeRefused

WINDOW_S = 1.0


class Rate:
    """At most so many in any second, and so many whose check has not ended (V55)."""

    def __init__(self, per_s: int, under_way: int) -> None:
        self._times: deque[float] = deque(maxlen=per_s)
        self._most_under_way = under_way
        self._under_way = 0

    def take(self, now_s: float) -> None:
        """Begin one, or refuse it; each that was begun must be `done`."""
        if len(self._times) == self._times.maxlen and now_s - self._times[0] < WINDOW_S:
            raise _limited(WINDOW_S - (now_s - self._times[0]))
        if self._under_way >= self._most_under_way:
            raise _limited(WINDOW_S)
        self._times.append(now_s)
        self._under_way += 1

    def done(self) -> None:
        self._under_way -= 1


def _limited(wait_s: float) -> SubscribeRefused:
    return SubscribeRefused(f"Rate limited: retry after {int(wait_s * 1000) + 1}ms", numbered=False)
