"""Who is told: a client's connection and each subscription on it."""

from typing import Protocol
from uuid import UUID

from msgspec import Struct

from proto.pgwire.live import Ack, Refused, encode
from proto.streams.parts import Assembler
from services.gateway.core.parcel import Wish
from services.gateway.core.selective import Rule

# Before every step: whoever stands here needs a whole result.
NOWHERE = -1


class Outlet(Protocol):
    """One client's connection, as the live side sees it."""

    def send(self, data: bytes) -> None:
        """Put live bytes between two messages of PostgreSQL."""

    @property
    def congested(self) -> bool:
        """The client does not read: what waits for it is over the high-water mark."""


class Failure(Struct, frozen=True):
    """Why a query has no result for now."""

    sqlstate: str
    message: str


class Line:
    """A connection and its subscriptions."""

    __slots__ = ("id", "outlet", "subscribers", "wants_lsn")

    def __init__(self, connection_id: str, outlet: Outlet, *, wants_lsn: bool) -> None:
        self.id, self.outlet, self.wants_lsn = connection_id, outlet, wants_lsn
        self.subscribers: dict[UUID, Subscriber] = {}


class Subscriber:
    """One subscription; `at` is the step that it was sent last, and counts only while it is behind."""

    __slots__ = ("acked", "at", "id", "key", "line", "parts", "paused", "query_id", "tables", "told", "waits", "wish")

    def __init__(self, subscription: UUID, line: Line, tables: int, rule: Rule) -> None:
        self.id, self.key, self.line, self.tables = subscription, subscription.bytes, line, tables
        self.wish = Wish(rule, line.wants_lsn)
        self.query_id: bytes | None = None
        self.at = NOWHERE
        self.acked = False
        self.paused = False
        # It was paused, and nothing has changed since it was resumed: it is sent nothing yet (decision 1).
        self.waits = False
        # The failure of its query that it was told.
        self.told: Failure | None = None
        # Of its first result.
        self.parts: Assembler | None = None

    @property
    def may_be_sent_to(self) -> bool:
        return not (self.paused or self.waits or self.line.outlet.congested)

    @property
    def ack(self) -> bytes:
        return encode(Ack(self.id, self.tables))

    def refusal(self, message: str) -> bytes:
        return encode(Refused(self.id, message))
