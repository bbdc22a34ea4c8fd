"""A reader of some partitions of a topic from chosen offsets; it belongs to no group and commits nothing."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from services.chassis.kafka.errors import ABSENCES, KafkaUnreachable, TopicMissing, making_client, unanswered
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.reader import FETCHING, TIMEOUT_S
from services.chassis.kafka.section import Kafka

READ_MESSAGES = 1000
READ_WAIT_S = 0.2
# A partition that is new, or whose broker has just gone, has no leader for a moment.
ELECTIONS = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
# How long a partition must be absent before it is taken for missing.
ABSENT_FOR_S = 5.0


def _nothing() -> None:
    """The default for a caller that has nothing to do while it waits."""


class PartitionsReader:
    """Add partitions, read them in offset order each, take them away again."""

    def __init__(self, kafka: Kafka, topic_name: str, *, client_id: str) -> None:
        self._bootstrap = kafka.bootstrap
        self._topic = kafka.broker_name(topic_name)
        self._reachability = Reachability()
        # The offset after the last record that was returned.
        self.positions: dict[int, int] = {}
        config: dict[str, Any] = {**kafka.client_config(), **FETCHING, **self._reachability.config()}
        config |= {"client.id": client_id, "group.id": client_id, "auto.offset.reset": "earliest"}
        with making_client(kafka.bootstrap):
            self._consumer = Consumer(config, logger=logging.getLogger("kafka"))

    def add(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions too, each from its offset."""
        self._consumer.incremental_assign(
            [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
        )
        self.positions.update(offsets)

    def remove(self, partitions: list[int]) -> None:
        known = [number for number in partitions if number in self.positions]
        self._consumer.incremental_unassign([TopicPartition(self._topic, number) for number in known])
        for number in known:
            del self.positions[number]

    def low_and_high(self, partition: int) -> tuple[int, int]:
        """The first offset on the broker and the one after the last."""
        began = time.monotonic()
        while True:
            try:
                return self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=TIMEOUT_S)
            except KafkaException as error:
                code = error.args[0].code()
                waited_s = time.monotonic() - began
                # A broker that comes back does not know its own topics for a moment.
                if code in ABSENCES and waited_s > ABSENT_FOR_S:
                    raise TopicMissing(self._topic, partition) from error
                if code not in ELECTIONS | ABSENCES or waited_s > TIMEOUT_S:
                    raise unanswered(self._bootstrap, self._reachability.trouble, error.args[0]) from error
            time.sleep(READ_WAIT_S)

    def read(self, timeout_s: float) -> list[Message]:
        """The next records: all that are at hand, or the first to come within the timeout, or none."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        records = []
        for message in (first, *self._consumer.consume(READ_MESSAGES - 1, 0)):
            error = message.error()
            if error is None:
                number, offset = message.partition(), message.offset()
                assert number is not None and offset is not None
                if number in self.positions:
                    self.positions[number] = offset + 1
                    records.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise unanswered(self._bootstrap, self._reachability.trouble, error)
        return records

    def read_up_to(
        self, ends: Mapping[int, int], *, within_s: float = 60.0, while_waiting: Callable[[], None] = _nothing
    ) -> Iterator[Message]:
        """Read until each of these partitions has reached its offset; records of others come along.

        Compaction leaves gaps, but never at the end: Kafka does not compact the segment that it writes to.
        """
        deadline = time.monotonic() + within_s
        while any(self.positions[number] < end for number, end in ends.items()):
            yield from self.read(READ_WAIT_S)
            while_waiting()
            if time.monotonic() > deadline:
                raise KafkaUnreachable(self._bootstrap, f"{self._topic} was not read to its end in {within_s:.0f} s")

    @property
    def trouble(self) -> str | None:
        """The client's last complaint while the brokers do not answer."""
        error = self._reachability.trouble
        return None if error is None else error.str()

    def close(self) -> None:
        self._consumer.close()
