"""Kafka as bytes: the connection's settings, topics, writers and readers; callers decode."""

from services.chassis.kafka.errors import (
    DeliveryFailed,
    KafkaRefused,
    KafkaUnreachable,
    MembershipLost,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicMismatch,
    TopicMissing,
    TopicRefused,
)
from services.chassis.kafka.group import GroupReader, Partition
from services.chassis.kafka.reader import Reader
from services.chassis.kafka.section import Kafka
from services.chassis.kafka.topics import TopicSpec, ensure_topics
from services.chassis.kafka.writer import Writer

__all__ = [
    "DeliveryFailed",
    "GroupReader",
    "Kafka",
    "KafkaRefused",
    "KafkaUnreachable",
    "MembershipLost",
    "OffsetOutOfRange",
    "Partition",
    "Reader",
    "RecordTooLarge",
    "TopicMismatch",
    "TopicMissing",
    "TopicRefused",
    "TopicSpec",
    "Writer",
    "ensure_topics",
]
