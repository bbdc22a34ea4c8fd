"""Who is subscribed to what: commands in, records to write out."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from proto.tidewire.v1.commands_pb2 import Command, Renew, SnapshotRequest, Subscribe
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from proto.tidewire.v1.subscriptions_pb2 import Refusal, Subscription, SubscriptionRecord
from services.registry.core.identity import query_of
from services.registry.errors import LimitExceeded

REMEMBERED_COMMANDS = 10_000
# A wanted result stays in the query's record so long: the record before may be compacted away unread, and a worker
# that takes over knows from `deltas` which ones are answered.
REQUEST_LIFE_US = 10 * 60 * 1_000_000
REQUESTS_KEPT = 1000


class PutSubscription(Struct, frozen=True, tag=True):
    """A record of `subscriptions`; None ends it."""

    query_id: bytes
    subscription_id: bytes
    record: SubscriptionRecord | None


class PutQuery(Struct, frozen=True, tag=True):
    """A record of `queries`; None ends it."""

    query_id: bytes
    query: Query | None


Write: TypeAlias = PutSubscription | PutQuery


class Entry:
    """A query with its subscriptions, and the requests for its whole result with the time when they came."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.subscriptions: dict[bytes, SubscriptionRecord] = {}
        self.requests: OrderedDict[bytes, tuple[int, SnapshotWanted]] = OrderedDict()

    def record(self, now_us: int) -> Query:
        """The query with the requests that may still be unanswered."""
        while self.requests:
            request_id, (since_us, _) = next(iter(self.requests.items()))
            if now_us - since_us < REQUEST_LIFE_US and len(self.requests) <= REQUESTS_KEPT:
                break
            del self.requests[request_id]
        record = Query()
        record.CopyFrom(self.query)
        del record.snapshots[:]
        record.snapshots.extend(wanted for _, wanted in self.requests.values())
        return record


class Roster:
    """All subscriptions. Writes for `subscriptions` come before those for `queries`, and must be written so."""

    def __init__(self, *, owner_limit: int, global_limit: int) -> None:
        self._owner_limit, self._global_limit = owner_limit, global_limit
        self._entries: dict[bytes, Entry] = {}
        self._query_of: dict[bytes, bytes] = {}
        self._owned: Counter[str] = Counter()
        self._commands: OrderedDict[bytes, None] = OrderedDict()

    @property
    def subscriptions(self) -> int:
        return len(self._query_of)

    @property
    def queries(self) -> int:
        return len(self._entries)

    def restore(self, queries: Iterable[Query], records: Iterable[SubscriptionRecord], now_us: int) -> list[Write]:
        """Begin from what the topics hold; returns what a crash left half done there."""
        for query in queries:
            entry = self._entries[query.query_id] = Entry(query)
            entry.requests.update((wanted.request_id, (now_us, wanted)) for wanted in query.snapshots)
        orphans: list[Write] = []
        for record in records:
            shared = self._entries.get(record.accepted.query_id) if record.HasField("accepted") else None
            if shared is None:
                orphans.append(PutSubscription(record.accepted.query_id, record.subscription_id, None))
            else:
                self._add(shared, record)
        for query_id, entry in list(self._entries.items()):
            if not entry.subscriptions:
                del self._entries[query_id]
                orphans.append(PutQuery(query_id, None))
        return orphans

    def obey(self, command: Command, now_us: int) -> Iterator[Write]:
        """Carry a command out; a repeat of one is harmless."""
        repeated = command.command_id in self._commands
        self._commands[command.command_id] = None
        if len(self._commands) > REMEMBERED_COMMANDS:
            self._commands.popitem(last=False)
        match command.WhichOneof("body"):
            case "subscribe":
                yield from self._subscribe(command, command.subscribe, now_us, repeated)
            case "unsubscribe":
                yield from self._end(command.unsubscribe.subscription_id, now_us)
            case "renew":
                yield from self._renew(command.gateway_id, command.renew, now_us)
            case "snapshot_request":
                yield from self._request(command, command.snapshot_request, now_us)
            case _:
                # Pause and resume change what a gateway sends, not what it must know.
                pass

    def expire(self, now_us: int) -> Iterator[Write]:
        """End the subscriptions whose gateway has not renewed them."""
        expired = [
            subscription_id
            for entry in self._entries.values()
            for subscription_id, record in entry.subscriptions.items()
            if record.accepted.lease_until_us < now_us
        ]
        for subscription_id in expired:
            yield from self._end(subscription_id, now_us)

    def _subscribe(self, command: Command, subscribe: Subscribe, now_us: int, repeated: bool) -> Iterator[Write]:
        subscription_id = subscribe.subscription_id
        known = self._query_of.get(subscription_id)
        if known is not None:
            entry = self._entries[known]
            yield PutSubscription(known, subscription_id, entry.subscriptions[subscription_id])
            yield PutQuery(known, entry.record(now_us))
            return
        if repeated:
            return  # it was ended since
        query = query_of(subscribe)
        record = SubscriptionRecord(
            subscription_id=subscription_id,
            gateway_id=command.gateway_id,
            delivery_partition=command.delivery_partition,
        )
        try:
            self._check_limits(subscribe.owner.connection_id)
        except LimitExceeded as refusal:
            record.refused.CopyFrom(Refusal(sqlstate=refusal.sqlstate, message=str(refusal)))
            yield PutSubscription(query.query_id, subscription_id, record)
            yield PutSubscription(query.query_id, subscription_id, None)
            return
        record.accepted.CopyFrom(
            Subscription(
                query_id=query.query_id,
                owner=subscribe.owner,
                lease_until_us=now_us + subscribe.lease_ms * 1000,
                first_request_id=subscription_id,
            )
        )
        entry = self._entries.setdefault(query.query_id, Entry(query))
        self._add(entry, record)
        yield PutSubscription(query.query_id, subscription_id, record)
        yield self._want(entry, command, subscription_id, subscribe.barrier_id, now_us)

    def _request(self, command: Command, request: SnapshotRequest, now_us: int) -> Iterator[Write]:
        entry = self._entries.get(request.query_id)
        if entry is not None:
            yield self._want(entry, command, request.request_id, request.barrier_id, now_us)

    def _want(self, entry: Entry, command: Command, request_id: bytes, barrier_id: str, now_us: int) -> PutQuery:
        wanted = SnapshotWanted(
            request_id=request_id,
            gateway_id=command.gateway_id,
            delivery_partition=command.delivery_partition,
            barrier_id=barrier_id,
        )
        entry.requests[request_id] = (now_us, wanted)
        return PutQuery(entry.query.query_id, entry.record(now_us))

    def _renew(self, gateway_id: str, renew: Renew, now_us: int) -> Iterator[Write]:
        for query_id, entry in self._entries.items():
            for subscription_id, record in entry.subscriptions.items():
                if record.gateway_id == gateway_id:
                    record.accepted.lease_until_us = now_us + renew.lease_ms * 1000
                    yield PutSubscription(query_id, subscription_id, record)

    def _end(self, subscription_id: bytes, now_us: int) -> Iterator[Write]:
        query_id = self._query_of.pop(subscription_id, None)
        if query_id is None:
            return
        entry = self._entries[query_id]
        record = entry.subscriptions.pop(subscription_id)
        entry.requests.pop(record.accepted.first_request_id, None)
        owner = record.accepted.owner.connection_id
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]
        yield PutSubscription(query_id, subscription_id, None)
        if not entry.subscriptions:
            del self._entries[query_id]
            yield PutQuery(query_id, None)

    def _add(self, entry: Entry, record: SubscriptionRecord) -> None:
        entry.subscriptions[record.subscription_id] = record
        self._query_of[record.subscription_id] = record.accepted.query_id
        self._owned[record.accepted.owner.connection_id] += 1

    def _check_limits(self, owner: str) -> None:
        if self._owned[owner] >= self._owner_limit:
            raise LimitExceeded("Connection", self._owned[owner], self._owner_limit)
        if self.subscriptions >= self._global_limit:
            raise LimitExceeded("Global", self.subscriptions, self._global_limit)
