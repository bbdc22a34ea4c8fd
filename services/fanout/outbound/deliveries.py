"""The topic `deliveries`."""

import time
from collections.abc import Callable

from proto.topics import DELIVERIES
from services.chassis.kafka import Kafka, Writer
from services.fanout.core.delivery import Addressed

CLIENT_ID = "fanout"


class Deliveries:
    """Sends in order and at once; `settle` waits until Kafka has everything."""

    def __init__(self, kafka: Kafka, *, while_waiting: Callable[[], None]) -> None:
        self._writer = Writer(kafka, DELIVERIES.name, client_id=CLIENT_ID, while_waiting=while_waiting)
        self._settled_s = time.monotonic()

    def send(self, addressed: Addressed) -> None:
        self._writer.send(addressed.delivery.SerializeToString(), key=addressed.key, partition=addressed.partition)

    def poll(self) -> None:
        """Process delivery reports."""
        self._writer.poll(0)
        if not self._writer.outstanding:
            self._settled_s = time.monotonic()

    def settle(self, within_s: float) -> bool:
        """Wait until Kafka has everything; False if the time is over first."""
        if self._writer.flush(within_s):
            return False
        self._settled_s = time.monotonic()
        return True

    @property
    def waiting_s(self) -> float:
        """How long the oldest unconfirmed record has waited."""
        return time.monotonic() - self._settled_s if self._writer.outstanding else 0.0

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble

    def close(self) -> None:
        """Drop what was not delivered: it is read and sent again after the next start."""
        self._writer.close()
