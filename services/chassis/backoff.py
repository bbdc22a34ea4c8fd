"""How long to wait before trying again: exponential, jittered, capped."""

import itertools
import random
import time
from collections.abc import Callable, Iterator

from msgspec import Struct


class Backoff(Struct, frozen=True, kw_only=True):
    """Delays that grow by `factor` from `first_s` to `cap_s`; up to half is taken off so that a crowd spreads."""

    first_s: float = 0.1
    cap_s: float = 10.0
    factor: float = 2.0

    def delays(self, chance: Callable[[], float] = random.random) -> Iterator[float]:
        """Endless delays in seconds; `chance` returns numbers from 0 to 1."""
        whole_s = self.first_s
        while True:
            whole_s = min(whole_s, self.cap_s)
            yield whole_s * (0.5 + 0.5 * chance())
            whole_s *= self.factor

    def attempts(
        self,
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        give_up_after_s: float | None = None,
        chance: Callable[[], float] = random.random,
    ) -> Iterator[int]:
        """Number the attempts from 0 and wait between them, until the time is over or `sleep` answers True."""
        deadline = None if give_up_after_s is None else clock() + give_up_after_s
        for attempt, delay_s in zip(itertools.count(), self.delays(chance), strict=False):
            yield attempt
            if deadline is not None and clock() + delay_s > deadline:
                return
            if sleep(delay_s) is True:
                return
