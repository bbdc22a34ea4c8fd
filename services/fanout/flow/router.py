"""The loop: reads subscriptions and deltas, sends deliveries, then commits the offsets."""

import time
from collections.abc import Iterable

from proto.streams.deltas import PartitionReader
from services.chassis.kafka import Kafka
from services.fanout.core.delivery import Interest
from services.fanout.inbound.deltas import Deltas, Read
from services.fanout.inbound.subscriptions import Heard, Subscriptions
from services.fanout.metrics import Metrics
from services.fanout.outbound.deliveries import Deliveries

WAIT_S = 0.02
# Offsets are committed this often: what is sent twice after a crash is dropped by the gateways.
COMMIT_EVERY_S = 0.5
SETTLE_S = 0.5
PARTING_S = 2.0
# A client waits half a minute for a first result; a refusal older than this has nobody waiting for it.
REFUSALS_FOR_S = 60.0


class Router:
    """`turn` is called until the process ends, or until an error says that a new router may do better."""

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
        # The next offset of each of our partitions; records before it were sent, but may not be written yet.
        self._next: dict[int, int] = {}
        self._committed_s = time.monotonic()
        self._deltas = Deltas(kafka, session_timeout_ms=session_timeout_ms, on_gain=self._gain, on_loss=self._lose)

    @property
    def owns_any(self) -> bool:
        return bool(self._interest)

    @property
    def trouble(self) -> str | None:
        return self._deltas.trouble

    def turn(self) -> None:
        read = self._deltas.read(WAIT_S)
        # The registry writes a subscription before its query: where a first result is, its subscription is as well.
        first = {one.partition for one in read if one.record.HasField("snapshot") and one.partition in self._interest}
        self._hear(self._subscriptions.catch_up(first) if first else self._subscriptions.at_hand())
        for one in read:
            if one.partition in self._interest:
                self._hand_on(one)
        self._deliveries.poll()
        if self._next and time.monotonic() - self._committed_s > COMMIT_EVERY_S and self._deliveries.settle(SETTLE_S):
            self._deltas.commit_soon(self._next)
            self._next, self._committed_s = {}, time.monotonic()
        self._metrics.behind.set(self._deltas.behind)

    def close(self) -> None:
        """Wait for the last deliveries and commit, as far as Kafka answers."""
        self._part_from(list(self._next))
        self._deltas.close()
        self._subscriptions.close()
        self._deliveries.close()

    def _hear(self, arrived: Iterable[Heard]) -> None:
        for heard in arrived:
            if heard.partition not in self._interest:
                continue
            refusal = self._interest[heard.partition].put(heard.key, heard.record)
            # The owner before us may have crashed before sending it: send recent refusals again.
            if refusal is not None and heard.written_ms / 1000 > time.time() - REFUSALS_FOR_S:
                self._deliveries.send(refusal)

    def _hand_on(self, one: Read) -> None:
        self._metrics.deltas.inc()
        record = self._fences[one.partition].feed(one.record)
        if record is None:
            self._metrics.void.inc(0 if one.record.HasField("fence") else 1)
        else:
            for addressed in self._interest[one.partition].route(record):
                self._deliveries.send(addressed)
                self._metrics.deliveries.inc()
        self._next[one.partition] = one.offset + 1

    def _gain(self, partitions: list[int]) -> None:
        for number in partitions:
            self._interest[number], self._fences[number] = Interest(), PartitionReader()
        self._subscriptions.add(partitions)
        self._hear(self._subscriptions.catch_up(set(partitions)))

    def _lose(self, partitions: list[int]) -> None:
        self._part_from(partitions)
        self._subscriptions.remove(partitions)
        for number in partitions:
            self._interest.pop(number, None)
            self._fences.pop(number, None)

    def _part_from(self, partitions: list[int]) -> None:
        """Commit what we sent, so that the next owner need not send it again."""
        parted = {number: self._next.pop(number) for number in partitions if number in self._next}
        if parted and self._deliveries.settle(PARTING_S):
            self._deltas.commit_soon(parted)
