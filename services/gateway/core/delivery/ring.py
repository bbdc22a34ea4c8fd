"""The latest changes of a query, kept while a subscription is behind: numbered, bounded, dropped when not needed."""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct


class RingLimits(Struct, frozen=True, kw_only=True):
    """What the rings of one query and of all queries may hold."""

    steps: int = 1024
    bytes: int = 4 * 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024


class Ring:
    """Steps `first` up to `head`; a subscription at a step before `first` can no longer be brought forward by them."""

    def __init__(self, rings: "Rings") -> None:
        self._rings = rings
        self._blocks: deque[bytes] = deque()
        self.first = 0
        self.bytes = 0

    @property
    def head(self) -> int:
        return self.first + len(self._blocks)

    def append(self, block: bytes) -> None:
        """A step that a subscription will need."""
        self._blocks.append(block)
        self._grow(len(block))
        limits = self._rings.limits
        while len(self._blocks) > limits.steps or self.bytes > limits.bytes:
            self._drop_oldest()
        self._rings.settle()

    def skip(self) -> None:
        """A step that nobody needs."""
        self.clear()
        self.first += 1

    def since(self, step: int) -> tuple[bytes, ...] | None:
        """The blocks from this step to the head; None if some of them are gone."""
        return tuple(self._blocks)[step - self.first :] if step >= self.first else None

    def trim(self, needed: Iterable[int]) -> None:
        """Keep what those who stand at these steps need."""
        lowest = min((step for step in needed if step >= self.first), default=self.head)
        while self.first < lowest:
            self._drop_oldest()

    def clear(self) -> None:
        self.first = self.head
        self._blocks.clear()
        self._grow(-self.bytes)

    def _drop_oldest(self) -> None:
        self.first += 1
        self._grow(-len(self._blocks.popleft()))

    def _grow(self, by: int) -> None:
        self.bytes += by
        self._rings.weigh(self, by)


class Rings:
    """All rings of the gateway; when they are too heavy together, the heaviest goes."""

    def __init__(self, limits: RingLimits) -> None:
        self.limits = limits
        self.bytes = 0
        self._filled: dict[int, Ring] = {}

    def weigh(self, ring: Ring, by: int) -> None:
        self.bytes += by
        if ring.bytes:
            self._filled[id(ring)] = ring
        else:
            self._filled.pop(id(ring), None)

    def settle(self) -> None:
        while self.bytes > self.limits.total_bytes:
            max(self._filled.values(), key=lambda ring: ring.bytes).clear()
