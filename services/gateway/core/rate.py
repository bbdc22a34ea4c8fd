"""How many messages a connection may send in a second, and how many of its subscribes may be checked at once."""

from collections import deque

from services.gateway.errors import RefusalCode, SubscribeRefused

WINDOW_S = 1.0


class SubscribeRate:
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


class TokenBucket:
    """At most so many in any second on average; a burst may be of two seconds."""

    def __init__(self, per_s: int) -> None:
        self._per_s, self._left, self._at_s = float(per_s), 2.0 * per_s, 0.0

    def admits(self, now_s: float) -> bool:
        self._left = min(2 * self._per_s, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def refusal(self) -> SubscribeRefused:
        return _limited((1 - self._left) / self._per_s)


def _limited(wait_s: float) -> SubscribeRefused:
    return SubscribeRefused(RefusalCode.RATE_LIMITED, f"Rate limited: retry after {int(wait_s * 1000) + 1}ms")
