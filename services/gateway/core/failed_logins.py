"""How long an address waits after log-ins that failed, and how many it may have under way."""

import ipaddress
from collections import OrderedDict

from msgspec import Struct


class LoginLimits(Struct, frozen=True, kw_only=True):
    """Failures without a delay, the first delay (doubled by each further failure) and the longest."""

    free_failures: int = 3
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    # After this long without a failure an address is as new.
    forget_after_s: float = 900.0
    # Log-ins of one address that are being checked: guesses in parallel would all come before the first delay.
    under_way: int = 4
    addresses: int = 10_000


class _Record(Struct):
    failures: int = 0
    failed_at: float = 0.0
    closed_until: float = 0.0
    under_way: int = 0


class FailedLogins:
    """One record for each address; the one unused for longest is forgotten when there are too many."""

    def __init__(self, limits: LoginLimits) -> None:
        self._limits = limits
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """How long this address must wait before it may try again; 0: it may now."""
        record = self._records.get(group_of(address))
        if record is None:
            return 0.0
        if record.closed_until > now_s:
            return record.closed_until - now_s
        return 1.0 if record.under_way >= self._limits.under_way else 0.0

    def began(self, address: str) -> None:
        """A log-in is being checked."""
        self._record(address).under_way += 1

    def ended(self, address: str, now_s: float, *, failed: bool) -> None:
        """A log-in was checked. A success forgives nothing: an attacker may have a login too."""
        record = self._record(address)
        record.under_way = max(0, record.under_way - 1)
        if failed:
            self.failed(address, now_s)

    def failed(self, address: str, now_s: float) -> None:
        """A log-in was refused."""
        record = self._record(address)
        forgotten = now_s - record.failed_at > self._limits.forget_after_s
        record.failures, record.failed_at = 1 if forgotten else record.failures + 1, now_s
        record.closed_until = now_s + self._delay_s(record.failures)

    def _delay_s(self, failures: int) -> float:
        beyond = failures - self._limits.free_failures
        if beyond <= 0:
            return 0.0
        return min(self._limits.longest_delay_s, self._limits.first_delay_s * 2.0 ** min(beyond - 1, 30))

    def _record(self, address: str) -> _Record:
        group = group_of(address)
        record = self._records.setdefault(group, _Record())
        self._records.move_to_end(group)
        while len(self._records) > self._limits.addresses:
            self._records.popitem(last=False)
        return record


def group_of(address: str) -> str:
    """The address itself, or the /64 of an IPv6 one: its holder has them all."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
