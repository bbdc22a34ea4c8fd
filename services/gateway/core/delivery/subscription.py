"""A client's connection and each subscription on it, as the delivery core keeps them."""

from uuid import UUID

from msgspec import Struct

from proto.streams.parts import Assembler
from services.gateway.core.delivery.encoder import Encoder, Outlet
from services.gateway.errors import Refusal

# Before every step: a subscription that stands here needs a whole result.
NO_STEP = -1


class Owner(Struct, frozen=True):
    """Whose rights a subscription has."""

    login: str
    role: str


NO_OWNER = Owner("", "")


class Connection:
    """A client's connection and its subscriptions."""

    __slots__ = ("id", "outlet", "subscriptions")

    def __init__(self, connection_id: str, outlet: Outlet) -> None:
        self.id, self.outlet = connection_id, outlet
        self.subscriptions: dict[UUID, Subscription] = {}


class Subscription:
    """One subscription; `step` is the last step that it was sent, and counts only while it is behind."""

    __slots__ = (
        "acknowledged",
        "awaits_change",
        "connection",
        "encoder",
        "first_parts",
        "id",
        "id_bytes",
        "last_failure",
        "owner",
        "paused",
        "query_id",
        "step",
        "tables",
    )

    def __init__(
        self, subscription_id: UUID, connection: Connection, encoder: Encoder, *, tables: int, owner: Owner = NO_OWNER
    ) -> None:
        self.id, self.id_bytes, self.connection = subscription_id, subscription_id.bytes, connection
        self.encoder, self.tables, self.owner = encoder, tables, owner
        self.query_id: bytes | None = None
        self.step = NO_STEP
        self.acknowledged = False
        self.paused = False
        # It was paused, and nothing has changed since it was resumed: it is sent nothing yet (decision 1).
        self.awaits_change = False
        # The failure of its query that it was told.
        self.last_failure: Refusal | None = None
        # The parts of its first result that have come.
        self.first_parts: Assembler | None = None

    @property
    def may_be_sent_to(self) -> bool:
        return not (self.paused or self.awaits_change or self.connection.outlet.congested)
