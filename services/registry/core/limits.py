"""How many subscriptions there may be, and how fast they may come (V55)."""

from collections import Counter

from msgspec import Struct

from services.registry.errors import LimitExceeded, RateLimited

SECOND_US = 1_000_000


class SubscriptionLimits(Struct, frozen=True):
    """Numbers of subscriptions (of a connection, of all, of a login), new ones a second, and sizes in bytes."""

    owner: int
    everyone: int
    per_s: int
    login: int
    statement_bytes: int
    record_bytes: int


class Bucket:
    """A token bucket: how many subscriptions a connection may add now."""

    def __init__(self, per_s: int, now_us: int) -> None:
        self._per_s, self._level_us, self._at_us = per_s, SECOND_US, now_us

    def take(self, now_us: int) -> None:
        """Take one token or raise RateLimited; a gateway's clock that steps back adds nothing."""
        price_us = SECOND_US // self._per_s
        self._level_us = min(SECOND_US, self._level_us + max(0, now_us - self._at_us))
        self._at_us = max(self._at_us, now_us)
        if self._level_us < price_us:
            raise RateLimited(-(-(price_us - self._level_us) // 1000))
        self._level_us -= price_us

    def is_full(self, now_us: int) -> bool:
        return self._level_us + now_us - self._at_us >= SECOND_US


class Counts:
    """Numbers of subscriptions by connection and by login; paused ones count (V58)."""

    def __init__(self, limits: SubscriptionLimits) -> None:
        self._limits = limits
        self._owned: Counter[str] = Counter()
        self._of_login: Counter[str] = Counter()
        self._total = 0
        self._buckets: dict[str, Bucket] = {}

    def admit(self, owner: str, login: str, asked_us: int) -> None:
        """Raise unless `owner` may have one more; the rate counts by `asked_us`, so that a backlog is not refused."""
        if self._owned[owner] >= self._limits.owner:
            raise LimitExceeded("Connection", self._owned[owner], self._limits.owner)
        if self._total >= self._limits.everyone:
            raise LimitExceeded("Global", self._total, self._limits.everyone)
        if self._of_login[login] >= self._limits.login:
            raise LimitExceeded("Login", self._of_login[login], self._limits.login)
        bucket = self._buckets.get(owner)
        if bucket is None:
            bucket = self._buckets[owner] = Bucket(self._limits.per_s, asked_us)
        bucket.take(asked_us)

    def add(self, owner: str, login: str) -> None:
        self._owned[owner] += 1
        self._of_login[login] += 1
        self._total += 1

    def remove(self, owner: str, login: str) -> None:
        self._total -= 1
        for counts, who in ((self._owned, owner), (self._of_login, login)):
            counts[who] -= 1
            if not counts[who]:
                del counts[who]

    def tidy(self, now_us: int) -> None:
        """Drop the buckets of connections that have not subscribed for a while."""
        for owner in [owner for owner, bucket in self._buckets.items() if bucket.is_full(now_us)]:
            del self._buckets[owner]
