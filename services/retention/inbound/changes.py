"""Reads of `changes` where it begins and ends, and where a seq or a moment stands in it."""

import logging

from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct

from proto.positions import Seq
from proto.topics import CHANGES
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import Kafka, Reader
from services.chassis.kafka.errors import making_client, unanswered

TIMEOUT_S = 10.0
READ_S = 1.0


class Extent(Struct, frozen=True):
    """Kafka offsets, and the seqs that stand there."""

    low: int
    high: int
    first_seq: int
    next_seq: int


class ChangesExtent:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def look(self) -> Extent | None:
        """None if there is nothing in it."""
        reader = Reader(self._kafka, CHANGES.name, client_id="retention")
        try:
            low, high = reader.low_and_high()
        finally:
            reader.close()
        if low >= high:
            return None
        follower = ChangesFollower(self._kafka, client_id="retention")
        try:
            first = follower.first_seq()
            follower.from_near_end(1)
            for _ in follower.read(TIMEOUT_S):
                pass
            return Extent(low, high, first or 0, follower.reader.committed_seq)
        finally:
            follower.close()

    def offset_before(self, seq: int) -> int:
        """The record from which on this seq, and all behind it, comes."""
        follower = ChangesFollower(self._kafka, client_id="retention")
        try:
            follower.from_before(Seq(seq), records=0)
            return follower.offset
        finally:
            follower.close()

    def offset_at(self, moment_us: int) -> int | None:
        """The first record that was written at this moment or later; None if none was."""
        config = {**self._kafka.client_config(), "group.id": "retention", "enable.auto.commit": False}
        with making_client(self._kafka.bootstrap):
            consumer = Consumer(config, logger=logging.getLogger("kafka"))
        try:
            asked = [TopicPartition(self._kafka.broker_name(CHANGES.name), 0, max(moment_us // 1000, 0))]
            (found,) = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        except KafkaException as error:
            raise unanswered(self._kafka.bootstrap, None, error.args[0]) from error
        else:
            # Without this a partition that has no leader would count as one in which everything is old.
            if found.error is not None:
                raise unanswered(self._kafka.bootstrap, None, found.error)
            return None if found.offset < 0 else int(found.offset)
        finally:
            consumer.close()
