"""An idempotent producer of one topic, which waits through a broker's outage and never loses a record in silence."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from services.chassis.kafka.errors import DeliveryFailed, RecordTooLarge, making_client
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.section import Kafka

UNASSIGNED = -1
QUEUE_FULL_WAIT_S = 0.05
DEFAULTS: Mapping[str, str | int | bool] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "compression.type": "lz4",
    "message.timeout.ms": 0,
    "queue.buffering.max.kbytes": 65536,
    "message.max.bytes": 10 * 1024 * 1024,
}


def _nothing() -> None:
    """The default for a caller with no other connection to keep alive."""


class Writer:
    """Sends in order; deliveries are told, and failures raised, while the caller sends, polls or flushes."""

    def __init__(
        self,
        kafka: Kafka,
        topic_name: str,
        *,
        client_id: str,
        partition: int | None = None,
        extra: Mapping[str, str | int | bool] | None = None,
        while_waiting: Callable[[], None] = _nothing,
    ) -> None:
        self._topic = kafka.broker_name(topic_name)
        self._partition = UNASSIGNED if partition is None else partition
        self._while_waiting = while_waiting
        self._reachability = Reachability()
        self._failure: KafkaError | None = None
        config: dict[str, Any] = {**kafka.client_config(), **DEFAULTS, **self._reachability.config()}
        config |= {**(extra or {}), "client.id": client_id}
        with making_client(kafka.bootstrap):
            self._producer = Producer(config, logger=logging.getLogger("kafka"))

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        on_delivered: Callable[[int], None] | None = None,
    ) -> None:
        """Queue one record, waiting while the queue is full; `on_delivered` learns its offset once it is written.

        Without a value it is a tombstone: a compacted topic forgets its key.
        """
        self._raise_failure()
        number = self._partition if partition is None else partition
        report = self._on_report if on_delivered is None else self._report_to(on_delivered)
        while True:
            try:
                self._producer.produce(self._topic, value, key, number, report)
                return
            except BufferError:
                self._while_waiting()
                self.poll(QUEUE_FULL_WAIT_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise RecordTooLarge(self._topic, len(value or b"")) from error
                raise DeliveryFailed(self._topic, error.args[0]) from error

    def poll(self, timeout_s: float = 0.0) -> None:
        """Serve deliveries; returns at the first, or after the timeout."""
        self._producer.poll(timeout_s)
        self._raise_failure()

    def flush(self, timeout_s: float) -> int:
        """Wait until all is delivered or the time is over, and return how many records are still outstanding."""
        deadline = time.monotonic() + timeout_s
        while self.outstanding and (left_s := deadline - time.monotonic()) > 0:
            self._while_waiting()
            self.poll(min(left_s, QUEUE_FULL_WAIT_S))
        self._raise_failure()
        return self.outstanding

    @property
    def outstanding(self) -> int:
        """Records sent whose delivery has not been told."""
        return len(self._producer)

    @property
    def reachable(self) -> bool:
        """Whether the brokers answer, as of the last poll."""
        return self._reachability.reachable

    @property
    def trouble(self) -> str | None:
        """The client's last complaint while the brokers do not answer."""
        error = self._reachability.trouble
        return None if error is None else error.str()

    def close(self) -> None:
        """Give up what is outstanding; flush first to keep it."""
        self._producer.purge()
        self._producer.poll(0)

    def _report_to(self, on_delivered: Callable[[int], None]) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            self._on_report(error, message)
            offset = message.offset()
            if error is None and offset is not None:
                on_delivered(offset)

        return report

    def _on_report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._reachability.answered()
        elif self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        failure = self._failure or self._reachability.fatal
        if failure is not None:
            raise DeliveryFailed(self._topic, failure)
