"""What can go wrong with Kafka: each a type with its facts, what to do, and whether a retry may help."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

# Errors by which a broker, or our own check of its certificate, says no; waiting does not change them.
REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
CREATION_REFUSALS = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
LOSSES = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._FENCED,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._MAX_POLL_EXCEEDED,
    }
)
ABSENCES = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class KafkaUnreachable(Exception):
    """No broker answers."""

    retry = True

    def __init__(self, bootstrap: str, detail: str) -> None:
        super().__init__(f"Kafka at {bootstrap} does not answer ({detail}): start it, or set TIDEWIRE_KAFKA_BOOTSTRAP")
        self.bootstrap, self.detail = bootstrap, detail


class KafkaRefused(Exception):
    """A broker answers and refuses us, or we refuse its certificate."""

    retry = False

    def __init__(self, bootstrap: str, detail: str) -> None:
        super().__init__(
            f"Kafka at {bootstrap} and these settings do not agree ({detail}): "
            "check TIDEWIRE_KAFKA_SECURITY_PROTOCOL, TIDEWIRE_KAFKA_SSL_* and TIDEWIRE_KAFKA_SASL_*"
        )
        self.bootstrap, self.detail = bootstrap, detail


class TopicMissing(Exception):
    """The topic or its partition is not on the broker."""

    retry = False

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"partition {partition} of topic {topic!r} does not exist: "
            "start the service that writes it, or mend TIDEWIRE_KAFKA_TOPIC_PREFIX"
        )
        self.topic, self.partition = topic, partition


class TopicMismatch(Exception):
    """A topic on the broker is not the one declared."""

    retry = False

    def __init__(self, topic: str, *, declared: int, found: int) -> None:
        super().__init__(
            f"topic {topic!r} has {found} partitions where {declared} are declared: "
            "delete it, or choose another TIDEWIRE_KAFKA_TOPIC_PREFIX"
        )
        self.topic, self.declared, self.found = topic, declared, found


class TopicRefused(Exception):
    """The broker will not create a topic as it is declared."""

    retry = False

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(
            f"Kafka would not create topic {topic!r} ({error.name()}: {error.str()}): "
            "set TIDEWIRE_KAFKA_REPLICATION_FACTOR to what the cluster has, or create the topic by hand"
        )
        self.topic, self.code = topic, error.code()


class MembershipLost(Exception):
    """The group has given this member's partitions, or its name, to another."""

    retry = True

    def __init__(self, group: str, error: KafkaError) -> None:
        super().__init__(
            f"the group {group!r} goes on without this member ({error.name()}): "
            "start again, and let no two processes have one instance id"
        )
        self.group, self.code = group, error.code()


class OffsetOutOfRange(Exception):
    """The offset asked for is not on the broker: trimmed, not yet written, or the topic is another one."""

    retry = False

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"offset {offset} is outside of {topic!r}, partition {partition}: "
            "read the low and high offsets and begin anew"
        )
        self.topic, self.partition, self.offset = topic, partition, offset


class RecordTooLarge(Exception):
    """One record exceeds what the client may send."""

    retry = False

    def __init__(self, topic: str, size_bytes: int) -> None:
        super().__init__(
            f"a record of {size_bytes} bytes is too large for {topic!r}: "
            "split it, or raise message.max.bytes of writer and topic"
        )
        self.topic, self.size_bytes = topic, size_bytes


class DeliveryFailed(Exception):
    """A record was not written, or the producer can write no more; only a new start helps."""

    retry = True

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(
            f"a record for {topic!r} was not written ({error.name()}: {error.str()}): "
            "start again from what is on the topic"
        )
        self.topic, self.code = topic, error.code()


def unanswered(bootstrap: str, trouble: KafkaError | None, error: KafkaError) -> KafkaUnreachable | KafkaRefused:
    """Why a request had no answer: the client's last trouble tells more than the request's own timeout."""
    cause = trouble or error
    words = cause.str() or cause.name()
    # A broker that rejects our certificate says so after TLS 1.3's handshake, which librdkafka counts as transport.
    if cause.code() in REFUSALS or "SSL alert" in words:
        return KafkaRefused(bootstrap, words)
    return KafkaUnreachable(bootstrap, words)


@contextmanager
def making_client(bootstrap: str) -> Iterator[None]:
    """While a client is made, librdkafka refuses what it cannot use, such as a key of another certificate."""
    try:
        yield
    except KafkaException as error:
        raise KafkaRefused(bootstrap, error.args[0].str()) from error
