"""What the switchboard wants done; to be done at once and in order, since what it decides next may depend on it."""

from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from services.gateway.core.parcel import Parcel
from services.gateway.core.subscriber import Line, Subscriber


class Fan(Struct, frozen=True, tag=True):
    """One batch for many subscribers."""

    parcel: Parcel
    to: list[Subscriber]


class Begin(Struct, frozen=True, tag=True):
    """The Ack; the first result or its error follows."""

    subscriber: Subscriber
    has_key: bool


class Send(Struct, frozen=True, tag=True):
    """Bytes for one connection."""

    line: Line
    data: bytes


class Ask(Struct, frozen=True, tag=True):
    """A whole result of the query is needed."""

    query_id: bytes


class End(Struct, frozen=True, tag=True):
    """The subscription is over; the registry must know."""

    subscription: UUID


Effect: TypeAlias = Fan | Begin | Send | Ask | End
