"""How much of a durable topic is kept, by age and by size (K28)."""

from collections.abc import Iterable

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Of each partition; None is no limit."""

    seconds: int | None = None
    max_bytes: int | None = None

    @property
    def any(self) -> bool:
        return self.seconds is not None or self.max_bytes is not None


class Kept(Struct, frozen=True):
    """A record of a partition: our offset, Kafka's, when it was committed, its size; a mark is no message."""

    offset: int
    kafka_offset: int
    committed_us: int
    size_bytes: int
    is_mark: bool = False


class Cut(Struct, frozen=True):
    """The first offset that is retained, and the Kafka offset up to which records go."""

    earliest: int
    kafka_offset: int
    messages: int


def first_retained(records: Iterable[Kept], limits: Limits, *, total_bytes: int, now_us: int) -> Cut | None:
    """Where to cut records, which come oldest first; None: nothing is to be trimmed.

    A message goes if it is too old, or if it and all behind it take too much; the first that stays ends the search. The
    last record stays in Kafka whatever its age: it tells the next offset.
    """
    oldest_us = None if limits.seconds is None else now_us - limits.seconds * 1_000_000
    held = total_bytes
    earliest = kafka_offset = None
    gone = 0
    for record in records:
        too_old = oldest_us is not None and record.committed_us < oldest_us
        too_much = limits.max_bytes is not None and held > limits.max_bytes
        if not record.is_mark and not (too_old or too_much):
            return None if earliest is None or not gone else Cut(record.offset, record.kafka_offset, gone)
        held -= record.size_bytes
        gone += not record.is_mark
        earliest = record.offset + (not record.is_mark)
        kafka_offset = record.kafka_offset
    # Nothing stays; the last record is kept.
    return None if earliest is None or kafka_offset is None or not gone else Cut(earliest, kafka_offset, gone)
