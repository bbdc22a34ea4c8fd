"""The topics, in walking order: what is in them, who writes and who reads them, and how Kafka keeps them."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from google.protobuf.message import Message
from msgspec import Struct

from proto.tidewire.v1.changes_pb2 import ChangesRecord
from proto.tidewire.v1.commands_pb2 import Command
from proto.tidewire.v1.cursors_pb2 import CursorRecord
from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.tidewire.v1.deltas_pb2 import DeltaRecord
from proto.tidewire.v1.notifications_pb2 import NotificationRecord
from proto.tidewire.v1.queries_pb2 import Query
from proto.tidewire.v1.result_requests_pb2 import ResultRequest
from proto.tidewire.v1.status_pb2 import Status
from proto.tidewire.v1.subscriptions_pb2 import SubscriptionRecord
from proto.tidewire.v1.topic_states_pb2 import TopicStateRecord

Record = TypeVar("Record", bound=Message)

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class Topic(Struct, Generic[Record], frozen=True, kw_only=True):
    """A topic as it must exist on the broker, with the record that each of its messages is."""

    name: str
    record: type[Record]
    key: str
    written_by: str
    read_by: tuple[str, ...]
    partitions: int
    config: dict[str, str]

    def decode(self, value: bytes) -> Record:
        return self.record.FromString(value)


CHANGES = Topic(
    name="changes",
    record=ChangesRecord,
    key="none",
    written_by="capture",
    read_by=("recompute", "gateway", "retention"),
    partitions=1,  # commit order is the product
    # DeleteRecords by retention trims it; time is only the upper bound for a stack without that service.
    config={"cleanup.policy": "delete", "retention.ms": str(7 * DAY_MS), "segment.bytes": str(256 * 1024 * 1024)},
)
COMMANDS = Topic(
    name="commands",
    record=Command,
    key="subscription id",
    written_by="gateway",
    read_by=("registry",),
    partitions=1,  # limits count over all subscriptions, so one registry decides
    config={"cleanup.policy": "delete", "retention.ms": str(DAY_MS)},
)
SUBSCRIPTIONS = Topic(
    name="subscriptions",
    record=SubscriptionRecord,
    key="query id + subscription id, partitioned by query id",
    written_by="registry",
    read_by=("fanout",),
    partitions=8,
    config={"cleanup.policy": "compact"},
)
QUERIES = Topic(
    name="queries",
    record=Query,
    key="query id",
    written_by="registry",
    read_by=("recompute",),
    partitions=8,
    config={"cleanup.policy": "compact"},
)
DELTAS = Topic(
    name="deltas",
    record=DeltaRecord,
    key="query id",
    written_by="recompute",
    read_by=("fanout",),
    partitions=8,  # as `subscriptions`: a fanout has both sides of a query
    config={"cleanup.policy": "delete", "retention.ms": str(DAY_MS)},
)
DELIVERIES = Topic(
    name="deliveries",
    record=Delivery,
    key="query id, partition leased by a gateway",
    written_by="fanout",
    read_by=("gateway",),
    partitions=16,  # at most so many gateways side by side
    config={"cleanup.policy": "delete", "retention.ms": str(10 * MINUTE_MS)},
)
CURSORS = Topic(
    name="cursors",
    record=CursorRecord,
    key="kind + id",
    written_by="gateway",
    read_by=("gateway",),
    partitions=1,  # one order, by which a gateway sees what another wrote last
    config={"cleanup.policy": "compact"},
)
NOTIFICATIONS = Topic(
    name="notifications",
    record=NotificationRecord,
    key="query id of the user",
    written_by="recompute",
    read_by=("gateway",),
    partitions=8,  # as `deltas`: who owns a query there writes it here
    config={"cleanup.policy": "compact", "min.compaction.lag.ms": str(60 * MINUTE_MS)},
)
RESULT_REQUESTS = Topic(
    name="result_requests",
    record=ResultRequest,
    key="none",
    written_by="gateway",
    read_by=("recompute",),
    partitions=1,
    config={"cleanup.policy": "delete", "retention.ms": str(10 * MINUTE_MS)},
)
TOPIC_STATES = Topic(
    name="topic_states",
    record=TopicStateRecord,
    key="topic id, or the word position",
    written_by="recompute",
    read_by=("recompute", "retention"),
    partitions=4,  # at most so many workers share the routes
    config={"cleanup.policy": "compact"},
)

FLOW = (
    CHANGES,
    COMMANDS,
    SUBSCRIPTIONS,
    QUERIES,
    DELTAS,
    DELIVERIES,
    CURSORS,
    NOTIFICATIONS,
    RESULT_REQUESTS,
    TOPIC_STATES,
)

# Beside the road of a commit: written by every service, and nothing is decided by it.
STATUS = Topic(
    name="status",
    record=Status,
    key="service + instance",
    written_by="every service",
    read_by=("gateway",),
    partitions=1,
    config={"cleanup.policy": "delete", "retention.ms": str(10 * MINUTE_MS)},
)


def flow_lines() -> Iterator[str]:
    """The topology as text, one topic a line: what README shows and `make flow` prints."""
    for topic in FLOW:
        yield f"{topic.written_by:<10} == {topic.name:<15} ==> {', '.join(topic.read_by)}"
