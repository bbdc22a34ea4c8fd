"""The topics on the broker: created where they are missing, refused where they are not as declared."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.chassis.backoff import Backoff
from services.chassis.kafka.errors import (
    CREATION_REFUSALS,
    KafkaUnreachable,
    TopicMismatch,
    TopicRefused,
    making_client,
    unanswered,
)
from services.chassis.kafka.reachability import Reachability
from services.chassis.kafka.section import Kafka

TIMEOUT_S = 10.0


class TopicSpec(Protocol):
    """A topic as its owner declares it."""

    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> int: ...
    @property
    def config(self) -> Mapping[str, str]: ...


def ensure_topics(kafka: Kafka, topics: Iterable[TopicSpec], *, timeout_s: float = TIMEOUT_S) -> None:
    """Create the missing topics and wait until the broker shows them all; may be repeated."""
    wanted = {kafka.broker_name(topic.name): topic for topic in topics}
    cluster = _Cluster(kafka, timeout_s)
    for _ in Backoff(first_s=0.02, cap_s=0.5).attempts(give_up_after_s=timeout_s):
        found = cluster.partition_counts()
        _refuse_mismatch(wanted, found)
        missing = {name: topic for name, topic in wanted.items() if name not in found}
        if not missing:
            return
        cluster.create(missing)
    raise KafkaUnreachable(
        kafka.bootstrap, f"it did not show {sorted(missing)} within {timeout_s:.0f} s of creating them"
    )


def _refuse_mismatch(wanted: Mapping[str, TopicSpec], found: Mapping[str, int]) -> None:
    for name, topic in wanted.items():
        if found.get(name, topic.partitions) != topic.partitions:
            raise TopicMismatch(name, declared=topic.partitions, found=found[name])


class _Cluster:
    def __init__(self, kafka: Kafka, timeout_s: float) -> None:
        self._kafka, self._timeout_s = kafka, timeout_s
        self._reachability = Reachability()
        config = {**kafka.client_config(), **self._reachability.config(), "client.id": "topics"}
        with making_client(kafka.bootstrap):
            self._admin = AdminClient(config)

    def partition_counts(self) -> dict[str, int]:
        listing = self._reachability.ask(
            lambda slice_s: self._admin.list_topics(timeout=slice_s),
            hear=lambda: self._admin.poll(0),
            bootstrap=self._kafka.bootstrap,
            timeout_s=self._timeout_s,
        )
        return {name: len(topic.partitions) for name, topic in listing.topics.items() if topic.error is None}

    def create(self, missing: Mapping[str, TopicSpec]) -> None:
        requests = [
            NewTopic(
                name,
                num_partitions=topic.partitions,
                replication_factor=self._kafka.replication_factor,
                config=dict(topic.config),
            )
            for name, topic in missing.items()
        ]
        answers: dict[str, Any] = self._admin.create_topics(requests, request_timeout=self._timeout_s)
        for name, answer in answers.items():
            try:
                answer.result()
            except KafkaException as error:
                code = error.args[0].code()
                if code in CREATION_REFUSALS:
                    raise TopicRefused(name, error.args[0]) from error
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise unanswered(self._kafka.bootstrap, self._reachability.trouble, error.args[0]) from error
