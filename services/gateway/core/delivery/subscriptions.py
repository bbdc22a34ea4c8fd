"""Which subscription stands where, and what a delivery means for each: records in, effects out."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from uuid import UUID

from msgspec import Struct

from proto.partitions import partition_of
from proto.pgwire.live import NO_SUBSCRIPTION, Refused, encode
from proto.streams.fencing import Fencing, Writer
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, Delta, DeltaRecord
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from services.gateway.core.effects import Begin, Effect, End, Send
from services.gateway.core.query import LiveQuery
from services.gateway.core.ring import RingLimits, Rings
from services.gateway.core.selective import Rule
from services.gateway.core.subscriber import Line, Outlet, Subscriber
from services.gateway.core.whole import LastWhole

# How many subscriptions are known after their end.
REMEMBERED = 10_000


class Limits(Struct, frozen=True, kw_only=True):
    """What a result and the waiting for slow readers may cost."""

    max_rows: int = 10_000
    rings: RingLimits = RingLimits()


class Switchboard:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rings, self._wholes = Rings(limits.rings), LastWhole()
        self._lines: dict[str, Line] = {}
        self._subscribers: dict[UUID, Subscriber] = {}
        self._queries: dict[bytes, LiveQuery] = {}
        self._fences: dict[int, Fencing] = {}
        self._ended: OrderedDict[UUID, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._subscribers)

    @property
    def ring_bytes(self) -> int:
        """What is kept for those who are behind."""
        return self._rings.bytes

    @property
    def eligible(self) -> int:
        """How many subscriptions may be sent rows in part."""
        keyed = (query for query in self._queries.values() if query.key_positions)
        return sum(one.acked and one.wish.rule.enabled for query in keyed for one in query.subscribers)

    def open(self, connection_id: str, outlet: Outlet, *, wants_lsn: bool) -> None:
        self._lines[connection_id] = Line(connection_id, outlet, wants_lsn=wants_lsn)

    def close(self, connection_id: str) -> list[UUID]:
        """The connection is gone; these subscriptions end with it (V29)."""
        line = self._lines.pop(connection_id)
        ended = list(line.subscribers)
        for subscription in ended:
            self._forget(subscription)
        return ended

    def drained(self, connection_id: str) -> Iterator[Effect]:
        """The client reads again."""
        line = self._lines.get(connection_id)
        waiting: dict[bytes, list[Subscriber]] = {}
        for one in line.subscribers.values() if line is not None else ():
            if one.query_id is not None:
                waiting.setdefault(one.query_id, []).append(one)
        for query_id, subscribers in waiting.items():
            yield from self._forgetting(self._queries[query_id].drained(subscribers))

    def expect(self, subscription: UUID, connection_id: str, tables: int, rule: Rule) -> None:
        """A subscription was asked for; its first result will come."""
        line = self._lines[connection_id]
        line.subscribers[subscription] = self._subscribers[subscription] = Subscriber(subscription, line, tables, rule)

    def awaits(self, subscription: UUID) -> bool:
        """Whether it lives and has no first result yet."""
        found = self._subscribers.get(subscription)
        return found is not None and not found.acked

    def pause(self, subscription: UUID, connection_id: str) -> bool:
        """Whether this connection has such a subscription, and it was not paused."""
        found = self._owned(subscription, connection_id)
        if found is None or found.paused or found.query_id is None:
            return False
        self._queries[found.query_id].pause(found)
        return True

    def resume(self, subscription: UUID, connection_id: str) -> bool:
        """Whether it was paused; nothing is sent, the next change is the net of all that was missed."""
        found = self._owned(subscription, connection_id)
        if found is None or not found.paused or found.query_id is None:
            return False
        self._queries[found.query_id].resume(found)
        return True

    def remove(self, subscription: UUID, connection_id: str) -> bool:
        """Whether this connection had such a subscription."""
        if self._owned(subscription, connection_id) is None:
            return False
        self._forget(subscription)
        return True

    def give_up(self, subscription: UUID, message: str) -> Iterator[Effect]:
        """End a subscription that has no first result yet, unless it is its client that does not read."""
        found = self._subscribers.get(subscription)
        if found is not None and not found.acked and not found.line.outlet.congested:
            yield Send(found.line, found.refusal(message))
            self._forget(subscription)
            yield End(subscription)

    def refuse(self, record: SubscriptionRecord) -> Iterator[Effect]:
        """The registry did not take the subscription (no Ack, and no id, since it never lived) or ended it."""
        found = self._subscribers.get(UUID(bytes=record.subscription_id))
        if found is not None:
            known = found.id if found.acked else NO_SUBSCRIPTION
            yield Send(found.line, encode(Refused(known, record.refused.message)))
            self._forget(found.id)

    def ask_again(self) -> Iterator[Effect]:
        """Called at intervals: whole results that did not come within one."""
        for query in self._queries.values():
            yield from query.ask_again()

    def doubt(self) -> Iterator[Effect]:
        """Deliveries were lost: what every query stands at may no longer be so."""
        for query in self._queries.values():
            yield from query.doubt()

    def deliver(self, record: DeltaRecord) -> Iterator[Effect]:
        """Take a delta or a snapshot in."""
        is_snapshot = record.HasField("snapshot")
        delta = record.snapshot.result if is_snapshot else record.delta
        fencing = self._fences.setdefault(partition_of(delta.query_id), Fencing())
        if not fencing.admits(Writer(record.epoch, record.writer)):
            return
        if is_snapshot:
            yield from self._forgetting(self._snapshot(delta, record.snapshot.request_id))
        elif (query := self._queries.get(delta.query_id)) is not None:
            whole = query.parts.feed(delta)
            if whole is not None:
                yield from self._forgetting(query.apply(whole))

    def _snapshot(self, delta: Delta, request_id: bytes) -> Iterator[Effect]:
        asker = UUID(bytes=request_id)
        newcomer = self._subscribers.get(asker)
        if newcomer is not None and newcomer.query_id is None:
            yield from self._first(newcomer, delta)
        elif (query := self._queries.get(delta.query_id)) is not None:
            whole = query.parts.feed(delta, request_id)
            if whole is not None:
                yield from query.take(whole)
        if newcomer is None and delta.last and asker in self._ended:
            # A registry that began anew has carried out a subscribe again whose end it does not know.
            yield End(asker)

    def _first(self, newcomer: Subscriber, delta: Delta) -> Iterator[Effect]:
        """The first result of a subscription, or its error (decision 4)."""
        newcomer.parts = newcomer.parts or Assembler()
        whole = newcomer.parts.feed(delta)
        if whole is None:
            return
        newcomer.parts = None
        if whole.kind == DELTA_KIND_ERROR:
            yield Begin(newcomer, False)
            yield Send(newcomer.line, newcomer.refusal(whole.error_message))
            yield End(newcomer.id)
            return
        query = self._queries.get(whole.query_id)
        if query is None:
            query = LiveQuery(whole.query_id, self._rings, self._wholes, max_rows=self._limits.max_rows)
            self._queries[whole.query_id] = query
        query.join(newcomer)
        yield from query.take(whole)

    def _forgetting(self, effects: Iterable[Effect]) -> Iterator[Effect]:
        """Whatever ends is known here no longer."""
        for effect in effects:
            if isinstance(effect, End) and effect.subscription in self._subscribers:
                self._forget(effect.subscription)
            yield effect

    def _forget(self, subscription: UUID) -> None:
        found = self._subscribers.pop(subscription)
        found.line.subscribers.pop(subscription, None)
        self._ended[subscription] = None
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        if found.query_id is not None:
            query = self._queries[found.query_id]
            query.leave(found)
            if query.is_idle:
                query.ring.clear()
                del self._queries[found.query_id]

    def _owned(self, subscription: UUID, connection_id: str) -> Subscriber | None:
        found = self._subscribers.get(subscription)
        return found if found is not None and found.line.id == connection_id else None
