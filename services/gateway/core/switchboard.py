"""Which subscription stands where, and what a delivery means for each: records in, effects out."""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from proto.multiset import EMPTY, counted, shifted
from proto.partitions import partition_of
from proto.pgwire.live import NO_SUBSCRIPTION, Ack, Refused, encode, encode_data
from proto.rows import ResultRow, decode_block
from proto.streams.deltas import Standing, Verdict, judge, standing_after
from proto.streams.fencing import Fencing, Writer
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    FULL_REASON_SCHEMA_CHANGED,
    Delta,
    DeltaRecord,
)
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from services.gateway.core.difference import Piece, Rows, full, net_between, pieces

UNDEFINED_TABLE = "42P01"
# How many subscriptions are known after their end.
REMEMBERED = 10_000


class Send(Struct, frozen=True, tag=True):
    """Bytes for the connection of a subscription."""

    connection: str
    data: bytes


class Ask(Struct, frozen=True, tag=True):
    """A whole result of the query is needed."""

    query_id: bytes


class End(Struct, frozen=True, tag=True):
    """The subscription is over; the registry must know."""

    subscription: UUID


Effect: TypeAlias = Send | Ask | End


class Subscriber:
    """One subscription; `held` is the state sent last, where that is not the query's own."""

    def __init__(self, subscription: UUID, connection: str, tables: int) -> None:
        self.id, self.connection, self.tables = subscription, connection, tables
        self.query_id: bytes | None = None
        self.paused = False
        self.held: Rows | None = None


class LiveQuery:
    """The state of a query as its subscribers on this gateway have it."""

    def __init__(self) -> None:
        self.standing: Standing | None = None
        self.rows: Rows = Counter()
        self.state_hash = EMPTY
        self.key_positions: tuple[int, ...] = ()
        self.asked = False
        self.subscribers: dict[UUID, Subscriber] = {}

    def move(self, net: Mapping[ResultRow, int], delta: Delta, state_hash: bytes) -> None:
        for row, weight in net.items():
            self.rows[row] += weight
            if not self.rows[row]:
                del self.rows[row]
        self.standing, self.state_hash = standing_after(delta), state_hash
        self.key_positions = tuple(delta.key_positions)


class Switchboard:
    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._subscribers: dict[UUID, Subscriber] = {}
        self._queries: dict[bytes, LiveQuery] = {}
        self._fences: dict[int, Fencing] = {}
        self._parts = Assembler()
        self._ended: OrderedDict[UUID, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._subscribers)

    def expect(self, subscription: UUID, connection: str, tables: int) -> None:
        """A subscription was asked for; its first result will come."""
        self._subscribers[subscription] = Subscriber(subscription, connection, tables)

    def pause(self, subscription: UUID, connection: str) -> bool:
        """Whether this connection has such a subscription, and it was not paused."""
        return self._set_paused(subscription, connection, True)

    def resume(self, subscription: UUID, connection: str) -> bool:
        """Nothing is sent; the next change is the net of all that was missed."""
        return self._set_paused(subscription, connection, False)

    def remove(self, subscription: UUID, connection: str) -> bool:
        """Whether this connection had such a subscription."""
        if self._owned(subscription, connection) is None:
            return False
        self._forget(subscription)
        return True

    def remove_all(self, connection: str) -> list[UUID]:
        ended = [one.id for one in self._subscribers.values() if one.connection == connection]
        for subscription in ended:
            self._forget(subscription)
        return ended

    def give_up(self, subscription: UUID, message: str) -> Iterator[Effect]:
        """End a subscription that has no first result yet."""
        found = self._subscribers.get(subscription)
        if found is not None and found.query_id is None:
            yield Send(found.connection, encode(Refused(subscription, message)))
            yield from self._end(found)

    def refuse(self, record: SubscriptionRecord) -> Iterator[Effect]:
        """The registry did not take the subscription (no Ack, and no id, since it never lived) or ended it."""
        found = self._subscribers.get(UUID(bytes=record.subscription_id))
        if found is not None:
            known = NO_SUBSCRIPTION if found.query_id is None else found.id
            yield Send(found.connection, encode(Refused(known, record.refused.message)))
            self._forget(found.id)

    def deliver(self, record: DeltaRecord) -> Iterator[Effect]:
        """Take a delta or a snapshot in."""
        is_snapshot = record.HasField("snapshot")
        delta = record.snapshot.result if is_snapshot else record.delta
        request_id = record.snapshot.request_id if is_snapshot else b""
        fencing = self._fences.setdefault(partition_of(delta.query_id), Fencing())
        if not fencing.admits(Writer(record.epoch, record.writer)):
            return
        whole = self._parts.feed(delta, request_id)
        if whole is None:
            return
        newcomer = self._subscribers.get(UUID(bytes=request_id)) if is_snapshot else None
        query = self._queries.get(whole.query_id)
        if newcomer is None and is_snapshot and UUID(bytes=request_id) in self._ended:
            # A registry that began anew has carried out a subscribe again whose end it does not know.
            yield End(UUID(bytes=request_id))
        if query is None and newcomer is None:
            return
        if newcomer is not None and whole.kind == DELTA_KIND_ERROR:
            yield from self._stillborn(newcomer, whole.error_message)
            return
        if query is None:
            query = self._queries[whole.query_id] = LiveQuery()
        query.asked = query.asked and not is_snapshot
        yield from self._advance(query, whole)
        if newcomer is not None and newcomer.query_id is None:
            yield from self._welcome(query, newcomer, whole.query_id)

    def _advance(self, query: LiveQuery, delta: Delta) -> Iterator[Effect]:
        match judge(query.standing, delta):
            case Verdict.DROP:
                return
            case Verdict.RESYNC:
                yield from self._ask(query, delta.query_id)
                return
        if delta.kind == DELTA_KIND_ERROR:
            query.standing = standing_after(delta)
            yield from self._fail(query, delta)
            return
        whole = delta.kind == DELTA_KIND_FULL
        after = counted(decode_block(delta.rows)) if whole else None
        net = dict(decode_block(delta.rows)) if after is None else net_between(query.rows, after)
        state_hash = shifted(query.state_hash, net.items()) if after is None else shifted(EMPTY, after.items())
        if state_hash != delta.state_hash:
            # What we hold is not what the worker holds: trust nothing but a whole result.
            query.standing = None
            yield from self._ask(query, delta.query_id)
            return
        _hold(query)
        query.move(net, delta, state_hash)
        if net:
            renewed = whole and delta.full_reason == FULL_REASON_SCHEMA_CHANGED
            shared = [full(query.rows)] if renewed else pieces(net, query.key_positions)
            for subscriber in query.subscribers.values():
                yield from self._inform(query, subscriber, shared)

    def _inform(self, query: LiveQuery, subscriber: Subscriber, shared: list[Piece]) -> Iterator[Effect]:
        if subscriber.paused:
            return
        if subscriber.held is not None:
            shared = pieces(net_between(subscriber.held, query.rows), query.key_positions)
            subscriber.held = None
        for piece in shared:
            yield Send(subscriber.connection, encode_data(subscriber.id, piece.update, piece.count, piece.rows))

    def _welcome(self, query: LiveQuery, newcomer: Subscriber, query_id: bytes) -> Iterator[Effect]:
        count = query.rows.total()
        if count > self._max_rows:
            message = f"Result set too large: {count} rows (max: {self._max_rows})"
            yield from self._stillborn(newcomer, message)
            if not query.subscribers:
                self._queries.pop(query_id, None)
            return
        newcomer.query_id = query_id
        query.subscribers[newcomer.id] = newcomer
        whole = full(query.rows)
        yield Send(newcomer.connection, encode(Ack(newcomer.id, newcomer.tables)))
        yield Send(newcomer.connection, encode_data(newcomer.id, whole.update, whole.count, whole.rows))

    def _stillborn(self, newcomer: Subscriber, message: str) -> Iterator[Effect]:
        """The Ack waits for the first result or its error (decision 4)."""
        yield Send(newcomer.connection, encode(Ack(newcomer.id, newcomer.tables)))
        yield Send(newcomer.connection, encode(Refused(newcomer.id, message)))
        yield from self._end(newcomer)

    def _fail(self, query: LiveQuery, delta: Delta) -> Iterator[Effect]:
        for subscriber in list(query.subscribers.values()):
            yield Send(subscriber.connection, encode(Refused(subscriber.id, delta.error_message)))
            if delta.error_sqlstate == UNDEFINED_TABLE:
                yield from self._end(subscriber)

    def _ask(self, query: LiveQuery, query_id: bytes) -> Iterator[Effect]:
        if not query.asked:
            query.asked = True
            yield Ask(query_id)

    def _end(self, subscriber: Subscriber) -> Iterator[Effect]:
        self._forget(subscriber.id)
        yield End(subscriber.id)

    def _forget(self, subscription: UUID) -> None:
        found = self._subscribers.pop(subscription)
        self._ended[subscription] = None
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        if found.query_id is not None:
            query = self._queries[found.query_id]
            del query.subscribers[subscription]
            if not query.subscribers:
                del self._queries[found.query_id]

    def _set_paused(self, subscription: UUID, connection: str, paused: bool) -> bool:
        found = self._owned(subscription, connection)
        if found is None or found.paused == paused:
            return False
        found.paused = paused
        return True

    def _owned(self, subscription: UUID, connection: str) -> Subscriber | None:
        found = self._subscribers.get(subscription)
        return found if found is not None and found.connection == connection else None


def _hold(query: LiveQuery) -> None:
    """Keep the state that paused subscriptions were sent last, once for all of them."""
    behind = [one for one in query.subscribers.values() if one.paused and one.held is None]
    held = Counter(query.rows) if behind else None
    for subscriber in behind:
        subscriber.held = held
