"""A reader of one partition from an offset of the caller's choice; it belongs to no group and commits nothing."""

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from services.chassis.kafka.errors import (
    ABSENCES,
    REFUSALS,
    KafkaRefused,
    KafkaUnreachable,
    OffsetOutOfRange,
    TopicMissing,
    making_client,
)
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.section import Kafka

TIMEOUT_S = 10.0
# Large answers for throughput, short waits for latency; the queue bounds memory at 32 MiB.
FETCHING: Mapping[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 100,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 32 * 1024,
    "check.crcs": True,
}


class Reader:
    """Seek first, then read in offset order; an offset that is not there is an error, never a jump."""

    def __init__(
        self,
        kafka: Kafka,
        topic_name: str,
        partition: int = 0,
        *,
        client_id: str,
        extra: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self._bootstrap = kafka.bootstrap
        self._topic, self._partition = kafka.broker_name(topic_name), partition
        self._reachability = Reachability()
        self._position = 0
        self._error: KafkaError | None = None
        config: dict[str, Any] = {**kafka.client_config(), **FETCHING, **self._reachability.config()}
        config |= {**(extra or {}), "client.id": client_id, "group.id": client_id}
        with making_client(kafka.bootstrap):
            self._consumer = Consumer(config, logger=logging.getLogger("kafka"))

    def low_and_high(self, timeout_s: float = TIMEOUT_S) -> tuple[int, int]:
        """The first offset on the broker and the one after the last."""
        return self._reachability.ask(self._watermarks, hear=self._hear, bootstrap=self._bootstrap, timeout_s=timeout_s)

    def seek_to(self, offset: int) -> None:
        """Read from this offset on; what was fetched before is dropped."""
        self._consumer.assign([TopicPartition(self._topic, self._partition, offset)])
        self._position, self._error = offset, None

    def read(self, max_messages: int, timeout_s: float) -> list[Message]:
        """The next records: all that are at hand, or the first to come within the timeout, or none."""
        self._raise_error()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        # consume() would wait until it has max_messages; with no timeout it takes what is already here.
        messages = [first, *self._consumer.consume(max_messages - 1, 0)] if max_messages > 1 else [first]
        records = self._before_error(messages)
        if records:
            self._position = _offset(records[-1]) + 1
        else:
            self._raise_error()
        return records

    @property
    def position(self) -> int:
        """The offset after the last record that was returned."""
        return self._position

    @property
    def behind(self) -> int:
        """Records that the broker is known to have behind those that were returned."""
        place = TopicPartition(self._topic, self._partition)
        return max(0, self._consumer.get_watermark_offsets(place, cached=True)[1] - self._position)

    @property
    def reachable(self) -> bool:
        """Whether the brokers answer, as of the last read."""
        return self._reachability.reachable

    @property
    def trouble(self) -> str | None:
        """The client's last complaint while the brokers do not answer."""
        error = self._reachability.trouble
        return None if error is None else error.str()

    def close(self) -> None:
        """Leave the broker; the reader is of no use afterwards."""
        self._consumer.close()

    def _watermarks(self, timeout_s: float) -> tuple[int, int]:
        partition = TopicPartition(self._topic, self._partition)
        try:
            return self._consumer.get_watermark_offsets(partition, timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in ABSENCES:
                raise TopicMissing(self._topic, self._partition) from error
            raise

    def _before_error(self, messages: list[Message]) -> list[Message]:
        records: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                self._error = error
                break
        if records:
            self._reachability.answered()
        return records

    def _raise_error(self) -> None:
        error = self._error or self._reachability.fatal
        if error is None:
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise OffsetOutOfRange(self._topic, self._partition, self._position)
        if error.code() in ABSENCES:
            raise TopicMissing(self._topic, self._partition)
        if error.code() in REFUSALS:
            raise KafkaRefused(self._bootstrap, error.str())
        raise KafkaUnreachable(self._bootstrap, error.str())

    def _hear(self) -> None:
        """Let librdkafka tell its troubles; they wait for a poll, which may bring a record if one was assigned."""
        if not self._consumer.assignment():
            self._consumer.poll(0)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
