"""All subscriptions by query: executes commands and returns the records to write."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import partial

from proto.tidewire.v1.commands_pb2 import Command, Owner, SnapshotRequest, Subscribe
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from proto.tidewire.v1.subscriptions_pb2 import Refusal, Subscription, SubscriptionRecord
from services.registry.core.identity import ID_BYTES, query_of
from services.registry.core.leases import MS_US, Leases
from services.registry.core.limits import Counts, SubscriptionLimits
from services.registry.core.subscribed_query import SubscribedQuery
from services.registry.core.writes import PutQuery, PutSubscription, Write
from services.registry.errors import SubscriptionRefused, TooLarge, Unreadable

REMEMBERED_COMMANDS = 10_000
LEASE_ENDED = Refusal(sqlstate="57P05", message="Subscription ended: its lease was not renewed")


class SubscriptionIndex:
    """Holds every subscription; each command or expiry check yields the writes that follow (see writes.Batch)."""

    def __init__(self, limits: SubscriptionLimits, *, stall_us: int) -> None:
        self._limits, self._counts, self._leases = limits, Counts(limits), Leases(stall_us=stall_us)
        self._entries: dict[bytes, SubscribedQuery] = {}
        self._query_of: dict[bytes, bytes] = {}
        self._commands: OrderedDict[bytes, None] = OrderedDict()

    @property
    def subscriptions(self) -> int:
        return len(self._query_of)

    @property
    def queries(self) -> int:
        return len(self._entries)

    def restore(
        self, queries: Mapping[bytes, Query], records: Mapping[bytes, SubscriptionRecord], now_us: int
    ) -> list[Write]:
        """Load the records of the topics by key; returns the writes that complete what a crash interrupted."""
        for query_id, query in queries.items():
            self._entries[query_id] = SubscribedQuery(query, now_us)
        orphans: list[Write] = []
        for key, record in records.items():
            entry = self._entries.get(key[:ID_BYTES])
            if entry is None or not record.HasField("accepted"):
                orphans.append(PutSubscription(key[:ID_BYTES], key[ID_BYTES:], None))
            else:
                self._add(entry, record, now_us)
        for query_id, entry in list(self._entries.items()):
            if not entry.subscriptions:
                del self._entries[query_id]
                orphans.append(PutQuery(query_id, None))
        return orphans

    def repairs(
        self, queries: Mapping[bytes, Query], records: Mapping[bytes, SubscriptionRecord], now_us: int
    ) -> Iterator[Write]:
        """The writes that make the topics equal to this index: a registry before us may have written late."""
        for key in records:
            if self._query_of.get(key[ID_BYTES:]) != key[:ID_BYTES]:
                yield PutSubscription(key[:ID_BYTES], key[ID_BYTES:], None)
        for query_id in queries.keys() - self._entries.keys():
            yield PutQuery(query_id, None)
        for query_id, entry in self._entries.items():
            for subscription_id, record in entry.subscriptions.items():
                if records.get(query_id + subscription_id) != record:
                    yield PutSubscription(query_id, subscription_id, record)
            if query_id not in queries or not _has_all(queries[query_id], entry.record(now_us)):
                yield PutQuery(query_id, partial(entry.record, now_us))

    def obey(self, command: Command, now_us: int) -> Iterator[Write]:
        """Execute a command; repeating one is harmless."""
        repeated = command.command_id in self._commands
        self._commands[command.command_id] = None
        if len(self._commands) > REMEMBERED_COMMANDS:
            self._commands.popitem(last=False)
        match command.WhichOneof("body"):
            case "subscribe":
                yield from self._subscribe(command, now_us, repeated)
            case "unsubscribe":
                yield from self._end(command.unsubscribe.subscription_id)
            case "pause":
                yield from self._pause(command.pause.subscription_id, True)
            case "resume":
                yield from self._pause(command.resume.subscription_id, False)
            case "renew":
                self._leases.renew(command.gateway_id, command.renew.lease_ms, now_us)
            case "snapshot_request":
                yield from self._request(command, command.snapshot_request, now_us)
            case _:
                pass  # a command of a later version: its gateway gets no answer

    def expire(self, now_us: int) -> Iterator[Write]:
        """End subscriptions whose lease ran out; their gateway is told, in case it is still alive."""
        self._counts.tidy(now_us)
        for subscription_id in self._leases.expired(now_us):
            query_id = self._query_of[subscription_id]
            told = _record_of(self._entries[query_id].subscriptions[subscription_id])
            told.refused.CopyFrom(LEASE_ENDED)
            yield PutSubscription(query_id, subscription_id, told)
            yield from self._end(subscription_id)

    def renew_all(self, now_us: int) -> None:
        """The commands could not be read for a while: every lease begins anew."""
        self._leases.renew_all(now_us)

    def _subscribe(self, command: Command, now_us: int, repeated: bool) -> Iterator[Write]:
        subscribe = command.subscribe
        subscription_id = subscribe.subscription_id
        known = self._query_of.get(subscription_id)
        if known is not None:
            entry = self._entries[known]
            yield PutSubscription(known, subscription_id, entry.subscriptions[subscription_id])
            yield PutQuery(known, partial(entry.record, now_us))
            return
        if repeated:
            return  # a repeat of a subscribe that has ended since
        record = SubscriptionRecord(
            subscription_id=subscription_id,
            gateway_id=command.gateway_id,
            delivery_partition=command.delivery_partition,
        )
        try:
            query = self._query(subscribe)
            self._counts.admit(subscribe.owner.connection_id, _login(subscribe.owner), command.sent_us)
        except SubscriptionRefused as refusal:
            record.refused.CopyFrom(Refusal(sqlstate=refusal.sqlstate, message=str(refusal)))
            # It has no query: the record itself names the gateway that it is for.
            yield PutSubscription(subscription_id, subscription_id, record)
            yield PutSubscription(subscription_id, subscription_id, None)
            return
        record.accepted.CopyFrom(_accepted(subscribe, query.query_id, now_us))
        entry = self._entries.setdefault(query.query_id, SubscribedQuery(query, now_us))
        self._add(entry, record, now_us)
        yield PutSubscription(query.query_id, subscription_id, record)
        yield self._want(entry, command, subscription_id, subscribe.barrier_id, now_us)

    def _query(self, subscribe: Subscribe) -> Query:
        """The query that is asked for; raises SubscriptionRefused for one that no record can hold."""
        size_bytes = len(subscribe.sql.encode()) + len(subscribe.filter.encode())
        if size_bytes > self._limits.statement_bytes:
            raise TooLarge("Statement", size_bytes, self._limits.statement_bytes)
        try:
            query = query_of(subscribe)
        except Exception as error:  # any error while reading a client's text refuses that client's subscription only
            raise Unreadable(error) from error
        if query.ByteSize() > self._limits.record_bytes:
            raise TooLarge("Subscription", query.ByteSize(), self._limits.record_bytes)
        return query

    def _request(self, command: Command, request: SnapshotRequest, now_us: int) -> Iterator[Write]:
        entry = self._entries.get(request.query_id)
        if entry is not None:
            yield self._want(entry, command, request.request_id, request.barrier_id, now_us)

    def _want(
        self, entry: SubscribedQuery, command: Command, request_id: bytes, barrier_id: str, now_us: int
    ) -> PutQuery:
        wanted = SnapshotWanted(
            request_id=request_id,
            gateway_id=command.gateway_id,
            delivery_partition=command.delivery_partition,
            barrier_id=barrier_id,
        )
        entry.want(wanted, now_us)
        return PutQuery(entry.query.query_id, partial(entry.record, now_us))

    def _pause(self, subscription_id: bytes, paused: bool) -> Iterator[Write]:
        query_id = self._query_of.get(subscription_id)
        if query_id is None:
            return
        record = self._entries[query_id].subscriptions[subscription_id]
        if record.accepted.paused != paused:
            record.accepted.paused = paused
            yield PutSubscription(query_id, subscription_id, record)

    def _end(self, subscription_id: bytes) -> Iterator[Write]:
        query_id = self._query_of.pop(subscription_id, None)
        if query_id is None:
            return
        entry = self._entries[query_id]
        record = entry.end(subscription_id)
        self._counts.remove(record.accepted.owner.connection_id, _login(record.accepted.owner))
        self._leases.end(record.gateway_id, subscription_id)
        yield PutSubscription(query_id, subscription_id, None)
        if not entry.subscriptions:
            del self._entries[query_id]
            yield PutQuery(query_id, None)

    def _add(self, entry: SubscribedQuery, record: SubscriptionRecord, now_us: int) -> None:
        entry.subscriptions[record.subscription_id] = record
        self._query_of[record.subscription_id] = record.accepted.query_id
        self._counts.add(record.accepted.owner.connection_id, _login(record.accepted.owner))
        self._leases.grant(record.gateway_id, record.subscription_id, record.accepted.lease_ms, now_us)


def _accepted(subscribe: Subscribe, query_id: bytes, now_us: int) -> Subscription:
    return Subscription(
        query_id=query_id,
        owner=subscribe.owner,
        lease_until_us=now_us + subscribe.lease_ms * MS_US,
        first_request_id=subscribe.subscription_id,
        lease_ms=subscribe.lease_ms,
    )


def _login(owner: Owner) -> str:
    """The name that limits count by: roles that a login sets count for the login."""
    return owner.login or owner.role


def _record_of(record: SubscriptionRecord) -> SubscriptionRecord:
    return SubscriptionRecord(
        subscription_id=record.subscription_id,
        gateway_id=record.gateway_id,
        delivery_partition=record.delivery_partition,
    )


def _has_all(held: Query, wanted: Query) -> bool:
    """Whether a record asks for all that it should; more requests than we remember do no harm."""
    asked = {one.request_id for one in held.snapshots}
    return held.template_id == wanted.template_id and all(one.request_id in asked for one in wanted.snapshots)
