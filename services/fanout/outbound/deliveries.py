"""The topic `deliveries`."""

from collections.abc import Callable

from proto.topics import DELIVERIES
from services.chassis.kafka import Kafka, Writer
from services.fanout.core.delivery import Addressed

CLIENT_ID = "fanout"
FLUSH_S = 1.0


class Deliveries:
    """Sends in order; `settle` returns when Kafka has everything."""

    def __init__(self, kafka: Kafka, *, while_waiting: Callable[[], None]) -> None:
        self._writer = Writer(kafka, DELIVERIES.name, client_id=CLIENT_ID, while_waiting=while_waiting)

    def send(self, addressed: Addressed) -> None:
        self._writer.send(addressed.delivery.SerializeToString(), key=addressed.key, partition=addressed.partition)

    def settle(self) -> None:
        while self._writer.flush(FLUSH_S):
            pass

    @property
    def trouble(self) -> str | None:
        return self._writer.trouble
