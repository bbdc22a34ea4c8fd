"""Leases: a subscription ends when its gateway has not renewed it in time."""

from msgspec import Struct

MS_US = 1000
# For records without a lease time.
DEFAULT_US = 30_000 * MS_US


class Lease(Struct):
    length_us: int
    until_us: int


class Leases:
    """Kept in memory only: after a restart every subscription has a full period again."""

    def __init__(self, *, stall_us: int) -> None:
        # If expiry was not checked for this long, this process was stalled, and renewals are still unread.
        self._stall_us = stall_us
        self._looked_us: int | None = None
        self._of: dict[str, dict[bytes, Lease]] = {}

    def grant(self, gateway_id: str, subscription_id: bytes, lease_ms: int, now_us: int) -> None:
        length_us = lease_ms * MS_US or DEFAULT_US
        self._of.setdefault(gateway_id, {})[subscription_id] = Lease(length_us, now_us + length_us)

    def renew(self, gateway_id: str, lease_ms: int, now_us: int) -> None:
        """Renew all leases of a gateway; without a length, each for the time that it was granted for."""
        for lease in self._of.get(gateway_id, {}).values():
            lease.until_us = now_us + (lease_ms * MS_US or lease.length_us)

    def renew_all(self, now_us: int) -> None:
        """Start every lease again, after a time in which renewals could not be read."""
        for gateway_id in self._of:
            self.renew(gateway_id, 0, now_us)

    def end(self, gateway_id: str, subscription_id: bytes) -> None:
        held = self._of[gateway_id]
        del held[subscription_id]
        if not held:
            del self._of[gateway_id]

    def expired(self, now_us: int) -> list[bytes]:
        before_us, self._looked_us = self._looked_us, now_us
        if before_us is not None and now_us - before_us > self._stall_us:
            self.renew_all(now_us)
        return [
            subscription_id
            for held in self._of.values()
            for subscription_id, lease in held.items()
            if lease.until_us < now_us
        ]
