"""All subscriptions of this gateway: records of the topics and acts of clients in, effects out."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from uuid import UUID

from msgspec import Struct

from proto.partitions import partition_of
from proto.positions import Lsn
from proto.streams.fencing import Fencing, Writer
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, Delta, DeltaRecord
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from services.gateway.core.delivery.effects import Acknowledge, Effect, EndSubscription, SendRefusal
from services.gateway.core.delivery.encoder import Encoder, Outlet
from services.gateway.core.delivery.live_query import LiveQuery, failure_of
from services.gateway.core.delivery.ring import RingLimits, Rings
from services.gateway.core.delivery.subscription import NO_OWNER, Connection, Owner, Subscription
from services.gateway.core.delivery.whole_result import LastWholeResult
from services.gateway.errors import Refusal, RefusalCode

# How many subscriptions are remembered after their end.
ENDED_REMEMBERED = 10_000
EXPIRED = Refusal(RefusalCode.CREDENTIALS_EXPIRED, "Subscription ended: the credentials have expired")


class DeliveryLimits(Struct, frozen=True, kw_only=True):
    """How large a result may be, and what is kept for slow readers."""

    max_rows: int = 10_000
    rings: RingLimits = RingLimits()


class Subscriptions:
    def __init__(self, limits: DeliveryLimits) -> None:
        self._limits = limits
        self._rings, self._last_whole = Rings(limits.rings), LastWholeResult()
        self._connections: dict[str, Connection] = {}
        self._subscriptions: dict[UUID, Subscription] = {}
        self._queries: dict[bytes, LiveQuery] = {}
        self._fencing: dict[int, Fencing] = {}
        # The latest state of any query that a worker has sent.
        self.evaluated: Lsn | None = None
        self._ended: OrderedDict[UUID, None] = OrderedDict()
        self._count_by_login: Counter[str] = Counter()
        # On the monotonic clock; only of those whose credentials expire.
        self._expires_s: dict[UUID, float] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def every(self) -> Iterator[tuple[Subscription, int]]:
        """Each with how many steps it is behind; one that needs a whole result is as far behind as the ring is long."""
        for one in self._subscriptions.values():
            query = None if one.query_id is None else self._queries.get(one.query_id)
            yield one, 0 if query is None or one.id not in query.behind else query.ring.head - max(one.step, 0)

    @property
    def ring_bytes(self) -> int:
        """What is kept for those who are behind."""
        return self._rings.bytes

    def encoders_of_keyed(self) -> Iterator[Encoder]:
        """The encoder of each acknowledged subscription whose result has a certain key."""
        for query in self._queries.values():
            if query.key_positions:
                yield from (one.encoder for one in query.subscriptions if one.acknowledged)

    def open(self, connection_id: str, outlet: Outlet) -> None:
        self._connections[connection_id] = Connection(connection_id, outlet)

    def close(self, connection_id: str) -> list[UUID]:
        """The connection is gone; these subscriptions end with it (V29)."""
        ended = list(self._connections.pop(connection_id).subscriptions)
        for subscription_id in ended:
            self._forget(subscription_id)
        return ended

    def end_all(self, connection_id: str, refusal: Refusal, unless: Owner | None = None) -> Iterator[Effect]:
        """End the subscriptions of a connection, but for those of that owner, and tell the client why."""
        connection = self._connections[connection_id]
        for found in [one for one in connection.subscriptions.values() if one.owner != unless]:
            yield from self._end(found, refusal)

    def end_expired(self, now_s: float) -> Iterator[Effect]:
        """End the subscriptions whose credentials are no longer valid."""
        for subscription_id in [one for one, expires_s in self._expires_s.items() if expires_s <= now_s]:
            yield from self._end(self._subscriptions[subscription_id], EXPIRED)

    def logins_of(self, connection_id: str) -> set[str]:
        """Whose subscriptions a connection has."""
        return {one.owner.login for one in self._connections[connection_id].subscriptions.values()}

    def count_of(self, login: str) -> int:
        """How many subscriptions a login has, over all its connections."""
        return self._count_by_login[login]

    def drained(self, connection_id: str) -> Iterator[Effect]:
        """The client reads again."""
        connection = self._connections.get(connection_id)
        by_query: dict[bytes, list[Subscription]] = {}
        for one in connection.subscriptions.values() if connection is not None else ():
            if one.query_id is not None:
                by_query.setdefault(one.query_id, []).append(one)
        for query_id, subscriptions in by_query.items():
            yield from self._forgetting(self._queries[query_id].drained(subscriptions))

    def add(
        self,
        subscription_id: UUID,
        connection_id: str,
        encoder: Encoder,
        *,
        tables: int,
        owner: Owner = NO_OWNER,
        expires_s: float | None = None,
    ) -> None:
        """A subscription was requested; its first result will come."""
        connection = self._connections[connection_id]
        added = Subscription(subscription_id, connection, encoder, tables=tables, owner=owner)
        connection.subscriptions[subscription_id] = self._subscriptions[subscription_id] = added
        self._count_by_login[owner.login] += 1
        if expires_s is not None:
            self._expires_s[subscription_id] = expires_s

    def awaits_first_result(self, subscription_id: UUID) -> bool:
        found = self._subscriptions.get(subscription_id)
        return found is not None and not found.acknowledged

    def pause(self, subscription_id: UUID, connection_id: str) -> bool:
        """Whether this connection has such a subscription, and it was not paused."""
        found = self._of_connection(subscription_id, connection_id)
        if found is None or found.paused or found.query_id is None:
            return False
        self._queries[found.query_id].pause(found)
        return True

    def resume(self, subscription_id: UUID, connection_id: str) -> bool:
        """Whether it was paused; nothing is sent, the next change is the net of all that was missed."""
        found = self._of_connection(subscription_id, connection_id)
        if found is None or not found.paused or found.query_id is None:
            return False
        self._queries[found.query_id].resume(found)
        return True

    def remove(self, subscription_id: UUID, connection_id: str) -> bool:
        """Whether this connection had such a subscription."""
        if self._of_connection(subscription_id, connection_id) is None:
            return False
        self._forget(subscription_id)
        return True

    def give_up(self, subscription_id: UUID, refusal: Refusal) -> Iterator[Effect]:
        """End a subscription that has no first result yet, unless it is its client that does not read."""
        found = self._subscriptions.get(subscription_id)
        if found is not None and not found.acknowledged and not found.connection.outlet.congested:
            yield from self._end(found, refusal)

    def refuse(self, record: SubscriptionRecord) -> Iterator[Effect]:
        """The registry did not take the subscription, or ended it; it needs not be told."""
        found = self._subscriptions.get(UUID(bytes=record.subscription_id))
        if found is not None:
            code = RefusalCode.ENDED if found.acknowledged else RefusalCode.NOT_REGISTERED
            yield SendRefusal(found, Refusal(code, record.refused.message, record.refused.sqlstate))
            self._forget(found.id)

    def request_overdue_snapshots(self) -> Iterator[Effect]:
        """Called at intervals: whole results that did not come within one are requested again."""
        for query in self._queries.values():
            yield from query.request_overdue_snapshot()

    def distrust_all(self) -> Iterator[Effect]:
        """Deliveries were lost: no query may stand where we think."""
        for query in self._queries.values():
            yield from query.distrust()

    def deliver(self, record: DeltaRecord) -> Iterator[Effect]:
        """A delta or a snapshot has come."""
        is_snapshot = record.HasField("snapshot")
        delta = record.snapshot.result if is_snapshot else record.delta
        fencing = self._fencing.setdefault(partition_of(delta.query_id), Fencing())
        if not fencing.admits(Writer(record.epoch, record.writer)):
            return
        if self.evaluated is None or delta.to_lsn > self.evaluated:
            self.evaluated = Lsn(delta.to_lsn)
        if is_snapshot:
            yield from self._forgetting(self._snapshot(delta, record.snapshot.request_id))
        elif (query := self._queries.get(delta.query_id)) is not None:
            whole = query.parts.feed(delta)
            if whole is not None:
                yield from self._forgetting(query.apply(whole))

    def _snapshot(self, delta: Delta, request_id: bytes) -> Iterator[Effect]:
        requested_by = UUID(bytes=request_id)
        newcomer = self._subscriptions.get(requested_by)
        if newcomer is not None and newcomer.query_id is None:
            yield from self._first_result(newcomer, delta)
        elif (query := self._queries.get(delta.query_id)) is not None:
            whole = query.parts.feed(delta, request_id)
            if whole is not None:
                yield from query.take_snapshot(whole)
        if newcomer is None and delta.last and requested_by in self._ended:
            # A registry that began anew has carried out a subscribe again whose end it does not know.
            yield EndSubscription(requested_by)

    def _first_result(self, newcomer: Subscription, delta: Delta) -> Iterator[Effect]:
        """The first result of a subscription, or its error (decision 4)."""
        newcomer.first_parts = newcomer.first_parts or Assembler()
        whole = newcomer.first_parts.feed(delta)
        if whole is None:
            return
        newcomer.first_parts = None
        if whole.kind == DELTA_KIND_ERROR:
            yield Acknowledge(newcomer, ())
            yield SendRefusal(newcomer, failure_of(whole))
            yield EndSubscription(newcomer.id)
            return
        query = self._queries.get(whole.query_id)
        if query is None:
            query = LiveQuery(whole.query_id, self._rings, self._last_whole, max_rows=self._limits.max_rows)
            self._queries[whole.query_id] = query
        query.join(newcomer)
        yield from query.take_snapshot(whole)

    def _end(self, subscription: Subscription, refusal: Refusal) -> Iterator[Effect]:
        yield SendRefusal(subscription, refusal)
        self._forget(subscription.id)
        yield EndSubscription(subscription.id)

    def _forgetting(self, effects: Iterable[Effect]) -> Iterator[Effect]:
        """Passes effects on; a subscription that ends by one of them is forgotten here."""
        for effect in effects:
            if isinstance(effect, EndSubscription) and effect.subscription_id in self._subscriptions:
                self._forget(effect.subscription_id)
            yield effect

    def _forget(self, subscription_id: UUID) -> None:
        found = self._subscriptions.pop(subscription_id)
        found.connection.subscriptions.pop(subscription_id, None)
        self._expires_s.pop(subscription_id, None)
        self._count_by_login[found.owner.login] -= 1
        if not self._count_by_login[found.owner.login]:
            del self._count_by_login[found.owner.login]
        self._ended[subscription_id] = None
        if len(self._ended) > ENDED_REMEMBERED:
            self._ended.popitem(last=False)
        if found.query_id is not None:
            query = self._queries[found.query_id]
            query.leave(found)
            if query.is_idle:
                query.ring.clear()
                del self._queries[found.query_id]

    def _of_connection(self, subscription_id: UUID, connection_id: str) -> Subscription | None:
        found = self._subscriptions.get(subscription_id)
        return found if found is not None and found.connection.id == connection_id else None
