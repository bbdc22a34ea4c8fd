"""What a client asks for, whichever door it came by."""

from msgspec import Struct


class SubscribeRequest(Struct, frozen=True):
    """A query whose result the client wants to follow; parameters are PostgreSQL text."""

    query: str
    parameters: tuple[bytes | None, ...] = ()
    # A condition on the result's columns.
    filter: str | None = None
