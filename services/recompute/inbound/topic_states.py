"""Reads `topic_states`: which partitions are this worker's, and what stands in them."""

from msgspec import Struct

from proto.tidewire.v1.topic_states_pb2 import RoutesPosition, TopicState
from proto.topics import TOPIC_STATES
from services.chassis.kafka import GroupReader, Kafka, Partition, Reader
from services.chassis.kafka.committed import read_to_end

GROUP = "recompute-routes"
MESSAGES_A_READ = 500


class Standing(Struct, frozen=True):
    """How far a partition's routes have come; without a position nobody had it before."""

    position: RoutesPosition | None
    topics: dict[str, TopicState]


class TopicStatesGroup:
    """A member of the group: each partition is one worker's."""

    def __init__(self, kafka: Kafka, *, session_timeout_ms: int, worker_id: str | None) -> None:
        self.owned: set[int] = set()
        self._reader = GroupReader(
            kafka,
            [TOPIC_STATES.name],
            group=GROUP,
            client_id=GROUP,
            instance_id=worker_id,
            start="latest",
            on_assign=self._gained,
            on_revoke=self._lost,
            extra={"session.timeout.ms": session_timeout_ms, "heartbeat.interval.ms": session_timeout_ms // 4},
        )

    def keep(self, timeout_s: float) -> None:
        """Stay in the group; what is ours changes `owned`. The records are our own and not looked at."""
        self._reader.read(MESSAGES_A_READ, timeout_s)

    def close(self) -> None:
        self._reader.close()

    def _gained(self, partitions: list[Partition]) -> None:
        self.owned.update(partition.number for partition in partitions)

    def _lost(self, partitions: list[Partition]) -> None:
        self.owned.difference_update(partition.number for partition in partitions)


def standing(kafka: Kafka, partition: int) -> Standing:
    """What the committed records of a partition come to; call it behind the fence of one's own writer."""
    reader = Reader(kafka, TOPIC_STATES.name, partition, client_id=GROUP)
    low, _ = reader.low_and_high()
    reader.close()
    position: RoutesPosition | None = None
    topics: dict[str, TopicState] = {}
    for message in read_to_end(kafka, TOPIC_STATES.name, partition, low, client_id=GROUP):
        key, value = message.key() or b"", message.value()
        record = None if value is None else TOPIC_STATES.decode(value)
        if record is None:
            topics.pop(key.decode(), None)
        elif record.HasField("position"):
            position = record.position
        else:
            topics[record.topic.topic_id] = record.topic
    return Standing(position, topics)
