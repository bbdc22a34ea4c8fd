"""Writes `topic_states` and the messages of user topics: all of one step in one Kafka transaction."""

import logging
from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from proto.topics import TOPIC_STATES
from services.chassis.kafka import Kafka
from services.chassis.kafka.errors import making_client
from services.recompute.outbound.user_topics import Record

POSITION_KEY = b"position"
# A transaction that its worker left open is ended by the broker after this time; nobody reads past it meanwhile.
TRANSACTION_MS = 20_000
INIT_S = 30.0
COMMIT_S = 20.0
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class NotWritten(Exception):
    """The transaction was not committed, or nobody knows: what stands on the topic tells."""

    retry = True

    def __init__(self, error: KafkaError) -> None:
        super().__init__(f"a step of the routes was not written ({error.name()}: {error.str()}): read the state again")
        self.code = error.code()
        self.is_fenced = error.code() in FENCED


class TopicStates:
    """The one writer of a partition's topics: making it shuts out the one before."""

    def __init__(self, kafka: Kafka, partition: int) -> None:
        self._kafka, self._partition = kafka, partition
        self._states = kafka.broker_name(TOPIC_STATES.name)
        config: dict[str, Any] = {
            **kafka.client_config(),
            "client.id": f"routes-{partition}",
            "transactional.id": kafka.broker_name(f"routes-{partition}"),
            "transaction.timeout.ms": TRANSACTION_MS,
            "acks": "all",
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 131_072,
            "message.max.bytes": 10 * 1024 * 1024,
            "error_cb": _nothing,
        }
        with making_client(kafka.bootstrap):
            self._producer = Producer(config, logger=logging.getLogger("kafka"))
        self._asked(lambda: self._producer.init_transactions(INIT_S))

    def write(self, records: Iterable[Record], states: Iterable[tuple[bytes, bytes | None]]) -> None:
        """All of it or none, once; NotWritten if that is not certain."""
        self._asked(self._producer.begin_transaction)
        for record in records:
            self._produce(
                topic=self._kafka.broker_name(record.topic_name),
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers,
            )
        for key, value in states:
            self._produce(topic=self._states, value=value, key=key, partition=self._partition)
        self._asked(lambda: self._producer.commit_transaction(COMMIT_S))

    def close(self) -> None:
        """Without a word: a transaction that is open is ended by whoever comes next, or by the broker."""
        self._producer.purge()
        self._producer.poll(0)

    def _produce(self, **record: Any) -> None:
        while True:
            try:
                self._producer.produce(**record)
                return
            except BufferError:
                self._producer.poll(0.05)
            except KafkaException as error:
                raise NotWritten(error.args[0]) from error

    def _asked(self, call: "Any") -> None:
        """Once more where Kafka says that it may help."""
        for is_last in (False, False, True):
            try:
                call()
                return
            except KafkaException as error:
                if is_last or not error.args[0].retriable():
                    raise NotWritten(error.args[0]) from error


def _nothing(error: KafkaError) -> None:
    """Troubles of the connection show in the calls themselves."""
