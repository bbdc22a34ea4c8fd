"""Following `changes`: the contract's reader on top of a Kafka reader, from the beginning, the end or a seq."""

from collections.abc import Callable, Iterator

from proto.positions import Seq
from proto.streams.changes import ChangeEvent, ChangesReader, GapInChanges
from proto.tidewire.v1.changes_pb2 import ChangesRecord
from proto.topics import CHANGES
from services.chassis.kafka import Kafka, Reader

PROBE_TIMEOUT_S = 10.0
MESSAGES_A_READ = 200
FIRST_SEQ = Seq(1)


class SeqNotInLog(Exception):
    """The seq asked for was trimmed or is not written yet."""

    exit_code, retry = 2, False

    def __init__(self, wanted: Seq, first: Seq) -> None:
        super().__init__(
            f"seq {wanted} is not in the log, which begins at seq {first}: begin there, or take a snapshot"
        )
        self.wanted, self.first = wanted, first


class ChangesFollower:
    """Yields each change once, in commit order; the caller decides how long to wait for more."""

    def __init__(self, kafka: Kafka, *, client_id: str) -> None:
        self._kafka_reader = Reader(kafka, CHANGES.name, client_id=client_id)
        # Whether anybody wants the rows of the table with this oid; None: all.
        self.is_read: Callable[[int], bool] | None = None
        self._changes = ChangesReader()
        self._from_seq: Seq | None = None

    def rows_of(self, is_read: Callable[[int], bool]) -> None:
        """From now on give only the rows of tables, by oid, that somebody reads."""
        self.is_read = is_read

    def from_earliest(self) -> None:
        low, _ = self._kafka_reader.low_and_high()
        self._begin(low)

    def from_latest(self) -> None:
        _, high = self._kafka_reader.low_and_high()
        self._begin(high)

    def from_near_end(self, records: int) -> None:
        """Begin at most so many records before the end."""
        low, high = self._kafka_reader.low_and_high()
        self._begin(max(low, high - records))

    def from_seq(self, seq: Seq) -> None:
        """Begin at the change with this seq, which may still be to come."""
        seq = max(seq, FIRST_SEQ)
        low, high = self._kafka_reader.low_and_high()
        if low < high and seq < (first := self._seq_at(low)):
            raise SeqNotInLog(seq, first)
        self._begin(self._last_before(seq, low, high))
        self._from_seq = seq

    def from_before(self, seq: Seq, *, records: int) -> None:
        """Begin at or before this seq and so many records before the end, with whatever stands there."""
        low, high = self._kafka_reader.low_and_high()
        self._begin(max(low, min(high - records, self._last_before(seq, low, high))))

    def first_seq(self) -> Seq | None:
        """A seq at or before which the log begins; None if it is empty."""
        low, high = self._kafka_reader.low_and_high()
        return self._seq_at(low) if low < high else None

    def end(self) -> int:
        """The offset behind the last record that is in the log now."""
        return self._kafka_reader.low_and_high()[1]

    @property
    def offset(self) -> int:
        return self._kafka_reader.position

    @property
    def reader(self) -> ChangesReader:
        return self._changes

    def read(self, timeout_s: float) -> Iterator[ChangeEvent]:
        """What is at hand, or what comes within the timeout."""
        for message in self._kafka_reader.read(MESSAGES_A_READ, timeout_s):
            value = message.value()
            assert value is not None
            try:
                for event in self._changes.feed(value):
                    if self._is_wanted(event):
                        yield event
            except GapInChanges:
                if self._from_seq is None:
                    raise
                # The search for the seq ended on a record that a fenced-off writer left; from the start it cannot.
                self.from_earliest()
                return

    def close(self) -> None:
        self._kafka_reader.close()

    def _last_before(self, seq: Seq, low: int, high: int) -> int:
        """The last record from which on this seq comes; the first, if none is."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._seq_at(middle) <= seq else (low, middle)
        return low

    def _begin(self, offset: int) -> None:
        self._kafka_reader.seek_to(offset)
        self._changes = ChangesReader(self._reads)

    def _reads(self, oid: int) -> bool:
        return self.is_read is None or self.is_read(oid)

    def _is_wanted(self, event: ChangeEvent) -> bool:
        if self._from_seq is None:
            return True
        seq = getattr(event, "seq", None)
        if seq is None or seq < self._from_seq:
            return False
        self._from_seq = None
        return True

    def _seq_at(self, offset: int) -> Seq:
        """A seq at or before which the record's changes begin; pieces of a segment say where the last commit ended."""
        self._kafka_reader.seek_to(offset)
        messages = self._kafka_reader.read(1, PROBE_TIMEOUT_S)
        if not messages:
            raise TimeoutError(f"no answer for offset {offset} of `changes` within {PROBE_TIMEOUT_S:.0f} s")
        value = messages[0].value()
        assert value is not None
        record = ChangesRecord.FromString(value)
        return Seq(record.segment.first_seq if record.HasField("segment") else record.committed_seq)
