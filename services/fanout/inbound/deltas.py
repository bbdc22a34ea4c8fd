"""The topic `deltas`, as a member of the group that shares its partitions."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from proto.tidewire.v1.deltas_pb2 import DeltaRecord
from proto.topics import DELTAS
from services.chassis.kafka import GroupReader, Kafka, Partition

GROUP = "fanout"
MESSAGES_A_READ = 500


class Read(Struct, frozen=True):
    partition: int
    offset: int
    record: DeltaRecord


class Deltas:
    """`on_gain` and `on_loss` are called from within `read`, before records of the new partitions come.

    A partition begins where the group committed, or at its beginning; also where that is no longer on the broker, since
    gateways notice by themselves what they missed.
    """

    def __init__(
        self,
        kafka: Kafka,
        *,
        session_timeout_ms: int,
        on_gain: Callable[[list[int]], None],
        on_loss: Callable[[list[int]], None],
    ) -> None:
        self._reader = GroupReader(
            kafka,
            [DELTAS.name],
            group=GROUP,
            client_id=GROUP,
            on_assign=lambda partitions: on_gain([partition.number for partition in partitions]),
            on_revoke=lambda partitions: on_loss([partition.number for partition in partitions]),
            extra={
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": session_timeout_ms // 4,
                "auto.offset.reset": "earliest",
            },
        )

    def read(self, timeout_s: float) -> list[Read]:
        return [
            Read(
                self._reader.partition_of(message).number, message.offset() or 0, DELTAS.decode(message.value() or b"")
            )
            for message in self._reader.read(MESSAGES_A_READ, timeout_s)
        ]

    def commit_soon(self, next_offsets: Mapping[int, int]) -> None:
        """Commit these offsets without waiting for the answer."""
        self._reader.commit_soon({Partition(DELTAS.name, number): offset for number, offset in next_offsets.items()})

    @property
    def behind(self) -> int:
        """Records that were not read yet."""
        return self._reader.behind

    @property
    def trouble(self) -> str | None:
        return self._reader.trouble

    def close(self) -> None:
        self._reader.close()
