"""How many subscriptions there may be, and how fast they may come (V55)."""

from collections import Counter

from msgspec import Struct

from services.registry.errors import LimitExceeded, RateLimited

SECOND_US = 1_000_000


class Limits(Struct, frozen=True):
    """For one connection, for all of them, and how many a second one connection may add."""

    owner: int
    everyone: int
    per_s: int


class Bucket:
    """Holds what a connection may take at once, and fills at its rate."""

    def __init__(self, per_s: int, now_us: int) -> None:
        self._per_s, self._level_us, self._at_us = per_s, SECOND_US, now_us

    def take(self, now_us: int) -> None:
        """Clocks of gateways may step back; then nothing has flowed in."""
        price_us = SECOND_US // self._per_s
        self._level_us = min(SECOND_US, self._level_us + max(0, now_us - self._at_us))
        self._at_us = max(self._at_us, now_us)
        if self._level_us < price_us:
            raise RateLimited(-(-(price_us - self._level_us) // 1000))
        self._level_us -= price_us

    def is_full(self, now_us: int) -> bool:
        return self._level_us + now_us - self._at_us >= SECOND_US


class Counts:
    """Who has how many. Paused ones count (V58)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._owned: Counter[str] = Counter()
        self._total = 0
        self._buckets: dict[str, Bucket] = {}

    def admit(self, owner: str, asked_us: int) -> None:
        """Raise unless `owner` may have one more; `asked_us` is when he asked, so that a backlog is no offence."""
        if self._owned[owner] >= self._limits.owner:
            raise LimitExceeded("Connection", self._owned[owner], self._limits.owner)
        if self._total >= self._limits.everyone:
            raise LimitExceeded("Global", self._total, self._limits.everyone)
        bucket = self._buckets.get(owner)
        if bucket is None:
            bucket = self._buckets[owner] = Bucket(self._limits.per_s, asked_us)
        bucket.take(asked_us)

    def add(self, owner: str) -> None:
        self._owned[owner] += 1
        self._total += 1

    def remove(self, owner: str) -> None:
        self._owned[owner] -= 1
        self._total -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def tidy(self, now_us: int) -> None:
        """Forget those who have not asked for a while."""
        for owner in [owner for owner, bucket in self._buckets.items() if bucket.is_full(now_us)]:
            del self._buckets[owner]
