"""Whether and when to try again."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What an error's words say about trying again."""

    TRANSIENT = "transient"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


_PERMANENT = re.compile(
    r"parse error|syntax|not found|does(n't| not) exist|was dropped|permission|denied|invalid|only select|too large"
    r"|limit exceeded",
    re.IGNORECASE,
)
_TRANSIENT = re.compile(
    r"time(d )?out|lock|connection|reset|unavailable|busy|rate limited|no result within|temporar", re.IGNORECASE
)
_RATE_LIMIT = re.compile(r"rate limited: retry after (\d+) ?ms", re.IGNORECASE)


def verdict_of(words: str) -> Verdict:
    """What a SubscriptionError says: its text is all that the protocol gives."""
    if _PERMANENT.search(words):
        return Verdict.PERMANENT
    return Verdict.TRANSIENT if _TRANSIENT.search(words) else Verdict.UNKNOWN


def asked_delay_s(words: str) -> float | None:
    """How long a rate limit asks us to wait; None if the words are about something else."""
    found = _RATE_LIMIT.search(words)
    return int(found[1]) / 1000 if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Delays that double from `first_s` to `cap_s`; up to half is taken off, so that a crowd does not come at once.

    `attempts` bounds how often one subscription is tried again after errors that may pass. `connects` bounds how often
    a lost connection is tried again; None is for ever.
    """

    first_s: float = 1.0
    cap_s: float = 30.0
    factor: float = 2.0
    attempts: int = 3
    connects: int | None = None

    def whole_delay_s(self, attempt: int) -> float:
        """The delay after the attempt of this number, counted from 0."""
        # Beyond 64 doublings the power would overflow; the cap holds long before.
        return float(min(self.cap_s, self.first_s * self.factor ** min(attempt, 64)))

    def delay_s(self, attempt: int, chance: Callable[[], float] = random.random) -> float:
        """The same, with the jitter taken off; `chance` returns numbers from 0 to 1."""
        return self.whole_delay_s(attempt) * (0.5 + 0.5 * chance())
