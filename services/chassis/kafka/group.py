"""A reader that shares its topics' partitions with the other members of its group."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from msgspec import Struct

from services.chassis.kafka.errors import (
    ABSENCES,
    LOSSES,
    MembershipLost,
    OffsetOutOfRange,
    TopicMissing,
    making_client,
    unanswered,
)
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.reader import FETCHING, TIMEOUT_S
from services.chassis.kafka.section import Kafka


class Partition(Struct, frozen=True, order=True):
    """One partition of a topic of ours, by the topic's declared name."""

    topic: str
    number: int


def _ignore(partitions: list[Partition]) -> None:
    """The default for a caller that keeps nothing for a partition."""


class GroupReader:
    """Reads what the group assigns; commit an offset after its effect, never before.

    A partition without a committed offset begins at `start`; a committed offset that is no longer on the broker is an
    error, never a jump. `on_assign` and `on_revoke` are called from within `read` and `close`.
    """

    def __init__(
        self,
        kafka: Kafka,
        topic_names: Iterable[str],
        *,
        group: str,
        client_id: str,
        instance_id: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        on_assign: Callable[[list[Partition]], None] = _ignore,
        on_revoke: Callable[[list[Partition]], None] = _ignore,
        extra: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        self._kafka, self._group = kafka, kafka.broker_name(group)
        self._start = OFFSET_BEGINNING if start == "earliest" else OFFSET_END
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._reachability = Reachability()
        self._error: Message | None = None
        config: dict[str, Any] = {**kafka.client_config(), **FETCHING, **self._reachability.config()}
        config.update(extra or {})
        config.update({"client.id": client_id, "group.id": self._group})
        config["partition.assignment.strategy"] = "cooperative-sticky"
        if instance_id is not None:
            config["group.instance.id"] = instance_id
        with making_client(kafka.bootstrap):
            self._consumer = Consumer(config, logger=logging.getLogger("kafka"))
        names = [kafka.broker_name(name) for name in topic_names]
        self._consumer.subscribe(names, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def read(self, max_messages: int, timeout_s: float) -> list[Message]:
        """The next records: all that are at hand, or the first to come within the timeout, or none."""
        self._raise_error()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(max_messages - 1, 0)] if max_messages > 1 else [first]
        records = [message for message in messages if message.error() is None]
        if records:
            self._reachability.answered()
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._error = message
        if not records:
            self._raise_error()
        return records

    def partition_of(self, message: Message) -> Partition:
        """Where a record came from, by the topic's declared name."""
        topic, number = message.topic(), message.partition()
        assert topic is not None and number is not None
        return Partition(topic.removeprefix(self._kafka.topic_prefix), number)

    def commit(self, next_offsets: Mapping[Partition, int]) -> None:
        """Record that everything before these offsets has had its effect."""
        offsets = [self._broker_partition(partition, offset) for partition, offset in next_offsets.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise self._failure(error.args[0]) from error

    def commit_soon(self, next_offsets: Mapping[Partition, int]) -> None:
        """The same without waiting for it: one that fails is made good by the next."""
        offsets = [self._broker_partition(partition, offset) for partition, offset in next_offsets.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            if error.args[0].fatal():
                raise self._failure(error.args[0]) from error

    @property
    def behind(self) -> int:
        """Records of our partitions that the broker is known to have and that were not read yet."""
        found = 0
        for place in self._consumer.position(self._consumer.assignment()):
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            found += max(0, high - place.offset) if place.offset >= 0 else 0
        return found

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
        """Leave the group; a static member keeps its partitions until its session times out."""
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            committed = consumer.committed(partitions, timeout=TIMEOUT_S)
        except KafkaException as error:
            raise self._failure(error.args[0]) from error
        for partition in committed:
            if partition.error is not None:
                raise self._failure(partition.error)
            if partition.offset < 0:
                partition.offset = self._start
        consumer.incremental_assign(committed)
        self._on_assign(self._ours(partitions))

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_revoke(self._ours(partitions))
        consumer.incremental_unassign(partitions)

    def _ours(self, partitions: list[TopicPartition]) -> list[Partition]:
        prefix = self._kafka.topic_prefix
        return [Partition(partition.topic.removeprefix(prefix), partition.partition) for partition in partitions]

    def _broker_partition(self, partition: Partition, offset: int) -> TopicPartition:
        return TopicPartition(self._kafka.broker_name(partition.topic), partition.number, offset)

    def _failure(self, error: KafkaError) -> Exception:
        if error.code() in LOSSES or error.fatal():
            return MembershipLost(self._group, error)
        return unanswered(self._kafka.bootstrap, self._reachability.trouble, error)

    def _raise_error(self) -> None:
        if self._reachability.fatal is not None:
            raise self._failure(self._reachability.fatal)
        if self._error is None:
            return
        error, topic, number = self._error.error(), self._error.topic() or "", self._error.partition() or 0
        assert error is not None
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise OffsetOutOfRange(topic, number, self._error.offset() or 0)
        if error.code() in ABSENCES:
            raise TopicMissing(topic, number)
        raise self._failure(error)
