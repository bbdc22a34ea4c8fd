"""A query with its subscriptions, and the requests for its whole result."""

from collections import OrderedDict

from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord

# A request stays in the query's record for this long: an earlier record may be compacted away unread, and a worker
# that takes over knows from `deltas` which requests are answered.
REQUEST_LIFE_US = 10 * 60 * 1_000_000
REQUESTS_KEPT = 1000


class SubscribedQuery:
    def __init__(self, query: Query, now_us: int) -> None:
        self.query = query
        # The template has the same text: keep and write it once.
        query.ClearField("sql")
        self.subscriptions: dict[bytes, SubscriptionRecord] = {}
        # With the time when each came.
        self._requests: OrderedDict[bytes, tuple[int, SnapshotWanted]] = OrderedDict()
        for wanted in query.snapshots:
            self.want(wanted, now_us)
        del query.snapshots[:]

    def want(self, wanted: SnapshotWanted, now_us: int) -> None:
        self._requests[wanted.request_id] = (now_us, wanted)

    def end(self, subscription_id: bytes) -> SubscriptionRecord:
        record = self.subscriptions.pop(subscription_id)
        self._requests.pop(record.accepted.first_request_id, None)
        return record

    def record(self, now_us: int) -> Query:
        """The query with the requests that may still be unanswered."""
        while self._requests:
            request_id, (since_us, _) = next(iter(self._requests.items()))
            if now_us - since_us < REQUEST_LIFE_US and len(self._requests) <= REQUESTS_KEPT:
                break
            del self._requests[request_id]
        record = Query()
        record.CopyFrom(self.query)
        record.snapshots.extend(wanted for _, wanted in self._requests.values())
        return record
