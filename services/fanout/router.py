"""The loop: subscriptions tell who wants what, deltas are handed on, offsets follow the effect."""

from proto.streams.deltas import PartitionReader
from services.chassis.kafka import Kafka
from services.fanout.core.delivery import Interest
from services.fanout.inbound.deltas import Deltas, Read
from services.fanout.inbound.subscriptions import Subscriptions
from services.fanout.metrics import Metrics
from services.fanout.outbound.deliveries import Deliveries

WAIT_S = 0.02


class Router:
    """`turn` is called until the process ends."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        session_timeout_ms: int,
        subscriptions: Subscriptions,
        deliveries: Deliveries,
        metrics: Metrics,
    ) -> None:
        self._subscriptions, self._deliveries, self._metrics = subscriptions, deliveries, metrics
        self._interest: dict[int, Interest] = {}
        self._fences: dict[int, PartitionReader] = {}
        self._deltas = Deltas(kafka, session_timeout_ms=session_timeout_ms, on_gain=self._gain, on_loss=self._lose)

    @property
    def owns_any(self) -> bool:
        return bool(self._interest)

    def turn(self) -> None:
        read = self._deltas.read(WAIT_S)
        # The registry writes a subscription before its query: where a first result is, its subscription is as well.
        first_results = {one.partition for one in read if one.record.HasField("snapshot")}
        arrived = self._subscriptions.catch_up(first_results) if first_results else self._subscriptions.at_hand()
        for number, key, record in arrived:
            if number in self._interest:
                refusal = self._interest[number].put(key, record)
                if refusal is not None:
                    self._deliveries.send(refusal)
        for one in read:
            self._hand_on(one)
        self._deliveries.settle()
        if read:
            self._deltas.commit({one.partition: one.offset + 1 for one in read if one.partition in self._interest})

    def close(self) -> None:
        self._deltas.close()
        self._subscriptions.close()

    def _hand_on(self, one: Read) -> None:
        self._metrics.deltas.inc()
        if one.partition not in self._interest:
            return
        record = self._fences[one.partition].feed(one.record)
        if record is None:
            self._metrics.void.inc(0 if one.record.HasField("fence") else 1)
            return
        for addressed in self._interest[one.partition].route(record):
            self._deliveries.send(addressed)
            self._metrics.deliveries.inc()

    def _gain(self, partitions: list[int]) -> None:
        for number in partitions:
            self._interest[number], self._fences[number] = Interest(), PartitionReader()
        self._subscriptions.add(partitions)
        for number, key, record in self._subscriptions.catch_up(set(partitions)):
            self._interest[number].put(key, record)

    def _lose(self, partitions: list[int]) -> None:
        self._subscriptions.remove(partitions)
        for number in partitions:
            self._interest.pop(number, None)
            self._fences.pop(number, None)
