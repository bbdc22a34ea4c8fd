"""One run of retention: what it would trim, and the trimming of it."""

from collections.abc import Callable

from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.topics import CHANGES
from services.chassis.kafka import Kafka, OffsetOutOfRange, TopicMissing
from services.retention.core.limits import Cut, first_retained
from services.retention.core.readers import first_needed
from services.retention.inbound.changes import ChangesExtent
from services.retention.inbound.topic_states import States, Topic, read_states
from services.retention.inbound.user_topics import PartitionRecords, topic_name
from services.retention.metrics import Metrics
from services.retention.outbound.deletion import Deletion
from services.retention.outbound.horizons import Horizons
from services.retention.settings import Retention


class Trim(Struct, frozen=True):
    """Something to trim, and the sentence that a dry run prints."""

    sentence: str
    act: Callable[[], None]


class RetentionRun:
    """Looks, and acts unless it is only to say what it would do. Two at once ask for the same, which is harmless."""

    def __init__(
        self,
        kafka: Kafka,
        horizons: Horizons,
        settings: Retention,
        *,
        metrics: Metrics,
        log: FilteringBoundLogger,
        clock_us: Callable[[], int],
    ) -> None:
        self._kafka, self._horizons, self._settings = kafka, horizons, settings
        self._metrics, self._log, self._clock_us = metrics, log, clock_us
        self._deletion, self._changes = Deletion(kafka), ChangesExtent(kafka)
        self._partitions: dict[tuple[str, int], PartitionRecords] = {}

    def run(self, *, is_dry: bool = False) -> list[str]:
        """The sentences of what was, or would be, trimmed."""
        states = read_states(self._kafka)
        known = {(topic.topic_id, number) for topic in states.topics.values() for number in range(topic.partitions)}
        self._partitions = {key: held for key, held in self._partitions.items() if key in known}
        said = []
        trims = [
            *(trim for topic in states.topics.values() for trim in self._of_topic(topic)),
            *self._of_changes(states),
            *self._of_leftovers(states),
        ]
        for trim in trims:
            said.append(trim.sentence)
            if not is_dry:
                trim.act()
                self._log.info("trimmed", what=trim.sentence)
        return said

    def _of_topic(self, topic: Topic) -> list[Trim]:
        if not topic.limits.any:
            return []
        found = []
        for number in range(topic.partitions):
            try:
                cut = self._cut(topic, number)
            except (TopicMissing, OffsetOutOfRange):
                continue  # dropped, or trimmed by another one, meanwhile
            if cut is not None and cut.earliest > self._horizons.earliest(topic.topic_id, number):
                sentence = f"topic {topic.topic_id}, partition {number}: messages before offset {cut.earliest}"
                found.append(Trim(sentence, lambda cut=cut, number=number: self._trim(topic, number, cut)))  # type: ignore[misc]
        return found

    def _cut(self, topic: Topic, number: int) -> Cut | None:
        records = self._partitions.setdefault(
            (topic.topic_id, number), PartitionRecords(self._kafka, topic.topic_id, number)
        )
        low = records.low()
        total = records.total_bytes(low) if topic.retention_max_bytes is not None else 0
        return first_retained(records.kept(low), topic.limits, total_bytes=total, now_us=self._clock_us())

    def _trim(self, topic: Topic, number: int, cut: Cut) -> None:
        """What readers are told first: nobody may find a message gone that he was promised."""
        self._horizons.put(topic.topic_id, number, cut.earliest)
        self._deletion.before(topic_name(topic.topic_id), number, cut.kafka_offset)
        self._metrics.trimmed.inc(cut.messages)

    def _of_changes(self, states: States) -> list[Trim]:
        extent = self._changes.look()
        if extent is None:
            return []
        own, now_us = self._settings, self._clock_us()
        needed = first_needed(
            states.readers,
            next_seq=extent.next_seq,
            events=own.changes_events,
            grace_us=int(own.reader_grace_s * 1_000_000),
            now_us=now_us,
        )
        self._metrics.changes_horizon.set(extent.first_seq)
        self._metrics.dead_readers.set(len(needed.dead))
        self._metrics.oldest_reader.set(needed.oldest.first_seq if needed.oldest is not None else extent.next_seq)
        for reader in needed.dead:
            self._log.warning("reader_given_up", reader=reader.name, first_seq=reader.first_seq)
        young = self._changes.offset_at(now_us - int(own.changes_keep_s * 1_000_000))
        # The last record is never trimmed: it tells where the log stands.
        offset = min(
            self._changes.offset_before(needed.first_seq), extent.high - 1, extent.high - 1 if young is None else young
        )
        if offset <= extent.low:
            return []
        sentence = f"changes: {offset - extent.low} records, all before seq {needed.first_seq}"
        return [Trim(sentence, lambda: self._deletion.before(CHANGES.name, 0, offset))]

    def _of_leftovers(self, states: States) -> list[Trim]:
        if not states.is_whole:
            return []
        keys = self._horizons.leftovers(states.topics)

        def forget() -> None:
            self._horizons.forget(keys)
            self._metrics.leftovers.inc(len(keys))

        return [Trim(f"Redis: {len(keys)} keys of topics that are gone", forget)] if keys else []
