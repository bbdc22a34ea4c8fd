"""What a door gives the delivery core: how changes become messages, and where messages go."""

from typing import Protocol, TypeAlias

from proto.positions import Lsn
from services.gateway.core.delivery.difference import Change
from services.gateway.core.delivery.whole_result import WholeResult
from services.gateway.errors import Refusal

Update: TypeAlias = WholeResult | Change


class Outlet(Protocol):
    """One client's connection, as the delivery core sees it."""

    def send(self, message: bytes) -> None:
        """Queue one or more whole messages."""

    @property
    def congested(self) -> bool:
        """The client does not read: what waits for it is over the high-water mark."""


class Encoded(Protocol):
    """Messages of one update that lack only the subscription that they are for."""

    def addressed(self, subscription: bytes) -> bytes:
        """The messages for the subscription with this id."""


class Encoder(Protocol):
    """The messages of one door, and of one choice of its options.

    Encoders are compared by value: an update is encoded once for all subscriptions whose encoders are equal.
    """

    def __hash__(self) -> int: ...

    def update(self, update: Update, lsn: Lsn) -> Encoded:
        """A new state of the result, whole or as a change; `lsn` is the commit that it stands at."""

    def acknowledgement(self, subscription: bytes, tables: int, key_positions: tuple[int, ...]) -> bytes:
        """The subscription has begun; its first result, or the error instead of it, follows."""

    def refusal(self, subscription: bytes, refusal: Refusal) -> bytes:
        """A request was refused, or a subscription has failed or ended."""


class Batch:
    """One update for subscriptions with equal encoders; encoded when it is first sent, and shared from then on."""

    __slots__ = ("_encoded", "encoder", "lsn", "update")

    def __init__(self, update: Update, lsn: Lsn, encoder: Encoder) -> None:
        self.update, self.lsn, self.encoder = update, lsn, encoder
        self._encoded: Encoded | None = None

    @property
    def is_empty(self) -> bool:
        """A change without rows: what was missed cancelled itself out."""
        return isinstance(self.update, Change) and self.update.is_empty

    @property
    def encoded(self) -> Encoded:
        if self._encoded is None:
            self._encoded = self.encoder.update(self.update, self.lsn)
        return self._encoded
