"""What the delivery core wants done; to be done at once and in order, since what it decides next may depend on it."""

from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from services.gateway.core.delivery.encoder import Batch
from services.gateway.core.delivery.subscription import Subscription
from services.gateway.errors import Refusal


class SendBatch(Struct, frozen=True, tag=True):
    """Send one update to many subscriptions."""

    batch: Batch
    to: list[Subscription]


class Acknowledge(Struct, frozen=True, tag=True):
    """Tell the client that its subscription has begun; the first result or its error follows."""

    subscription: Subscription
    key_positions: tuple[int, ...]


class SendRefusal(Struct, frozen=True, tag=True):
    """Tell the client why its subscription was refused, fails or has ended."""

    subscription: Subscription
    refusal: Refusal


class RequestSnapshot(Struct, frozen=True, tag=True):
    """Ask for the whole result of a query."""

    query_id: bytes


class EndSubscription(Struct, frozen=True, tag=True):
    """The subscription is over; tell the registry."""

    subscription_id: UUID


Effect: TypeAlias = SendBatch | Acknowledge | SendRefusal | RequestSnapshot | EndSubscription
