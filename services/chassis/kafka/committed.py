"""The committed records of one partition up to its present end, which control records of transactions may follow."""

import logging
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from services.chassis.kafka.errors import ABSENCES, KafkaUnreachable, OffsetOutOfRange, TopicMissing, making_client
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.reader import FETCHING
from services.chassis.kafka.section import Kafka

POLL_S = 0.5
SILENCE_S = 30.0


def read_to_end(kafka: Kafka, topic_name: str, partition: int, start: int, *, client_id: str) -> Iterator[Message]:
    """Committed records from `start` on; ends where the partition ended when it was reached."""
    reachability = Reachability()
    config: dict[str, Any] = {**kafka.client_config(), **FETCHING, **reachability.config()}
    config |= {"client.id": client_id, "group.id": client_id, "isolation.level": "read_committed"}
    config["enable.partition.eof"] = True
    topic = kafka.broker_name(topic_name)
    with making_client(kafka.bootstrap):
        consumer = Consumer(config, logger=logging.getLogger("kafka"))
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        heard_s = time.monotonic()
        while time.monotonic() - heard_s < SILENCE_S:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            heard_s = time.monotonic()
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            elif error.code() in ABSENCES:
                raise TopicMissing(topic, partition)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise OffsetOutOfRange(topic, partition, start)
        raise KafkaUnreachable(kafka.bootstrap, f"it has not shown the end of {topic!r} for {SILENCE_S:.0f} s")
    finally:
        consumer.close()
