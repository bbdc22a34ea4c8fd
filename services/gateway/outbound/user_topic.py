"""One partition of a user topic in Kafka, read by our own offsets (docs/topics-records.md); all calls block.

Kafka's offsets have gaps where transactions end, so a message is found by looking: our offset grows with Kafka's.
"""

import time
from collections import deque

from msgspec import Struct

from proto.tidewire.v1.user_topics_pb2 import TOPIC_OPERATION_UNSPECIFIED, TopicMessage
from services.chassis.kafka import Kafka, OffsetOutOfRange, Reader, TopicMissing

CLIENT_ID = "gateway-topics"
EXTRA: dict[str, str | int | bool] = {"isolation.level": "read_committed", "enable.partition.eof": True}
LOOK_BACK = 1_000
WINDOW_MESSAGES, WINDOW_BYTES = 20_000, 32 * 1024 * 1024
READ_AT_ONCE = 2_000
BOUNDS_S = 1.0
PATIENCE_S = 5.0


class Held(Struct, frozen=True):
    """A message, where Kafka has it, and how large it is there."""

    message: TopicMessage
    place: int
    size: int


class UserTopicPartition:
    """The newest messages are kept in memory; older ones are read again. Raises what Reader raises."""

    def __init__(self, kafka: Kafka, topic_id: str, partition: int) -> None:
        self._kafka, self._name, self._partition = kafka, f"topic.{topic_id}", partition
        self._tail: Reader | None = None
        self._past: Reader | None = None
        # Where the reader of the past goes on: our offset that it gives next.
        self._past_next: int | None = None
        self._window: deque[Held] = deque()
        self._window_bytes = 0
        self.next = 0
        self._first_kept = self._mark = 0
        self._low, self._low_until_s = -1, 0.0

    @property
    def earliest(self) -> int:
        """As Kafka tells; retention may have said more in Redis."""
        return min(max(self._first_kept, self._mark), self.next)

    def catch_up(self, timeout_s: float) -> bool:
        """Read on at the end until something came or the time is over; whether something came."""
        try:
            tail = self._tail or self._open()
            came = self._take(tail.read(READ_AT_ONCE, timeout_s))
            self._look_at_low(tail)
        except TopicMissing:
            self.close()
            time.sleep(min(timeout_s, 0.2))  # recompute makes it when the definition has arrived
            return False
        except OffsetOutOfRange:
            self.close()
            return True
        return came

    def read(self, first: int, count: int) -> list[TopicMessage]:
        """Messages from this offset on, as many as there are up to `count`."""
        if self._window and self._window[0].message.offset <= first:
            begin = first - self._window[0].message.offset
            return [self._window[at].message for at in range(begin, min(begin + count, len(self._window)))]
        return self._read_past(first, count)

    def close(self) -> None:
        for reader in (self._tail, self._past):
            if reader is not None:
                reader.close()
        self._tail = self._past = self._past_next = None
        self._window.clear()
        self._window_bytes = 0

    def _open(self) -> Reader:
        """Look back far enough to meet the last record, and read up to the end."""
        reader = self._reader()
        try:
            low, high = reader.low_and_high()
            back = LOOK_BACK
            while high > low:
                place = max(low, high - back)
                reader.seek_to(place)
                if self._read_to_end(reader, high) or place == low:
                    break
                back *= 10
            else:
                reader.seek_to(high)
        except BaseException:
            reader.close()
            raise
        self._tail = reader
        return reader

    def _read_to_end(self, reader: Reader, high: int) -> bool:
        """Whether there was a record between here and the end of the time when it was asked for."""
        found, deadline_s = False, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            records = reader.read(READ_AT_ONCE, 0.1)
            found |= self._take(records)
            if reader.position >= high or (not records and found):
                break
            if not records and deadline_s - time.monotonic() < PATIENCE_S - 1.0:
                break  # only the ends of transactions are there
        return found

    def _take(self, records: list) -> bool:  # type: ignore[type-arg]
        for record in records:
            value = record.value() or b""
            message = TopicMessage.FromString(value)
            if message.operation == TOPIC_OPERATION_UNSPECIFIED:
                self._mark = max(self._mark, message.offset)
                self.next = max(self.next, message.offset)
                continue
            if message.offset < self.next and self._window:
                continue
            self.next = message.offset + 1
            self._window.append(Held(message, record.offset(), len(value)))
            self._window_bytes += len(value)
        while len(self._window) > WINDOW_MESSAGES or self._window_bytes > WINDOW_BYTES:
            self._window_bytes -= self._window.popleft().size
        return bool(records)

    def _look_at_low(self, tail: Reader) -> None:
        """The first record that Kafka still has, asked for now and then."""
        if time.monotonic() < self._low_until_s:
            return
        self._low_until_s = time.monotonic() + BOUNDS_S
        low, high = tail.low_and_high()
        if low == self._low or low == high:
            return
        self._low = low
        first = self._first_at(low, high)
        self._first_kept = self.next if first is None else first.message.offset

    def _read_past(self, first: int, count: int) -> list[TopicMessage]:
        if self._past_next != first:
            self._seek_past(first)
        found: list[TopicMessage] = []
        deadline_s = time.monotonic() + PATIENCE_S
        assert self._past is not None
        while len(found) < count and first + len(found) < self.next and time.monotonic() < deadline_s:
            for record in self._past.read(count - len(found), 0.2):
                message = TopicMessage.FromString(record.value() or b"")
                if message.operation != TOPIC_OPERATION_UNSPECIFIED and message.offset >= first:
                    found.append(message)
        self._past_next = found[-1].offset + 1 if found else None
        return found

    def _seek_past(self, wanted: int) -> None:
        """By halves: the place of the last record that is not beyond the wanted one."""
        if self._past is None:
            self._past = self._reader()
        low, high = self._past.low_and_high()
        begin, end = low, high
        while begin < end:
            middle = (begin + end) // 2
            held = self._first_at(middle, high)
            if held is None or held.message.offset >= wanted:
                end = middle
            else:
                begin = held.place + 1
        self._past.seek_to(max(low, begin - 1))

    def _first_at(self, place: int, high: int) -> Held | None:
        """The first record at or behind a place of Kafka."""
        if self._past is None:
            self._past = self._reader()
        self._past_next = None
        self._past.seek_to(place)
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            records = self._past.read(1, 0.1)
            if records:
                value = records[0].value() or b""
                return Held(TopicMessage.FromString(value), records[0].offset() or 0, len(value))
            if place >= high - 1 or deadline_s - time.monotonic() < PATIENCE_S - 1.0:
                return None
        return None

    def _reader(self) -> Reader:
        return Reader(self._kafka, self._name, self._partition, client_id=CLIENT_ID, extra=EXTRA)
