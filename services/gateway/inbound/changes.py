"""`changes`, read once for the whole gateway from near its end, and further back for those who are behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from proto.positions import Seq
from proto.streams.changes import ChangeEvent, ChangesReader, ChangeUnwritable, GapInChanges, RowChanged, Truncated
from proto.tidewire.v1.changes_pb2 import ChangesRecord
from proto.topics import CHANGES
from services.changelog.follower import ChangesFollower, SeqNotInLog
from services.chassis.kafka import Kafka, KafkaUnreachable, OffsetOutOfRange, Reader, TopicMissing
from services.gateway.core.cdc.tail import Change

CLIENT_ID = "gateway-changes"
# How far before the end to begin at least: what recent readers will ask for.
RECORDS_BEFORE_END = 500
WAIT_S = 0.5
RETRY_S = 0.5
PROBE_S = 10.0
# At most so many events are looked at in one turn of a reader that is behind.
SCANNED_A_TURN = 5_000
IDLE_READERS = 4
READERS = 3


class Origin(Struct, frozen=True):
    """Where the log begins for its readers: its history, and that history's first seq that is still there.

    `latest` is a seq near the end of the log.
    """

    history: int
    first: int
    latest: int = 0


class Batch(Struct, frozen=True):
    """What came; `origin` where reading has begun, or begun anew. Whether all that was there then has come."""

    events: list[ChangeEvent]
    next_seq: int
    history: int
    is_at_end: bool
    origin: Origin | None = None


class Changes:
    """The end of the log, as it grows: from where its last `retention` events begin, with all DDL among them."""

    def __init__(self, kafka: Kafka, *, retention: int) -> None:
        self._kafka, self._retention = kafka, retention
        self._follower: ChangesFollower | None = None
        self._end = 0
        self._trouble: str | None = None
        # Begun on a record that a fenced-off writer left; from the start it cannot.
        self._had_gap = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="changes")

    async def batches(self) -> AsyncIterator[Batch]:
        """Again and again; an empty one is a sign of life."""
        loop = asyncio.get_running_loop()
        while True:
            batch = await loop.run_in_executor(self._thread, self._read)
            if batch is None:
                await asyncio.sleep(RETRY_S)
            else:
                yield batch

    @property
    def trouble(self) -> str | None:
        return self._trouble

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._follower is not None:
            self._follower.close()

    def _read(self) -> Batch | None:
        try:
            origin = self._begin() if self._follower is None else None
            assert self._follower is not None
            events = list(self._follower.read(WAIT_S))
        except (GapInChanges, OffsetOutOfRange, KafkaUnreachable, TopicMissing, TimeoutError) as error:
            # Trimmed under us, another topic, or begun at the wrong record: begin anew.
            self._trouble, self._had_gap = str(error), isinstance(error, GapInChanges)
            self._drop()
            return None
        self._trouble = None
        reader = self._follower.reader
        return Batch(events, reader.committed_seq, reader.history, self._follower.offset >= self._end, origin)

    def _begin(self) -> Origin:
        origin = _origin(self._kafka)
        self._follower = ChangesFollower(self._kafka, client_id=CLIENT_ID)
        if self._had_gap:
            self._follower.from_earliest()
        else:
            self._follower.from_before(Seq(max(1, origin.latest - self._retention)), records=RECORDS_BEFORE_END)
        self._end = self._follower.end()
        return origin

    def _drop(self) -> None:
        if self._follower is not None:
            self._follower.close()
        self._follower = None


def _origin(kafka: Kafka) -> Origin:
    """Found by halving: the history of records that count only grows."""
    reader = Reader(kafka, CHANGES.name, client_id=CLIENT_ID)
    try:
        low, high = reader.low_and_high()
        if low == high:
            return Origin(0, 1)
        last = _record(reader, high - 1)
        history = last.history
        below, found = low - 1, high - 1
        while found - below > 1:
            middle = (below + found) // 2
            below, found = (below, middle) if _record(reader, middle).history >= history else (middle, found)
        record = _record(reader, found)
    finally:
        reader.close()
    match record.WhichOneof("body"):
        case "fence" if record.fence.begins_history:
            first = record.fence.history_seq
        case "segment":
            first = record.segment.first_seq
        case _:
            first = record.committed_seq
    return Origin(history, max(1, first), last.committed_seq)


def _record(reader: Reader, offset: int) -> ChangesRecord:
    reader.seek_to(offset)
    messages = reader.read(1, PROBE_S)
    if not messages:
        raise TimeoutError(f"no answer for offset {offset} of `changes` within {PROBE_S:.0f} s")
    return CHANGES.decode(messages[0].value() or b"")


class Past(Struct, frozen=True):
    """A stretch of the log: the changes of the tables asked for, and the last seq that was looked at."""

    changes: list[Change]
    scanned: int


class _Place:
    """A follower that stands before a seq."""

    def __init__(self, kafka: Kafka, after: int) -> None:
        self._follower = ChangesFollower(kafka, client_id=f"{CLIENT_ID}-past")
        self._follower.from_seq(Seq(after + 1))
        self._events = self._each()
        self._held: Change | None = None
        self.after = after

    def next(self, until: int) -> Change | None:
        """The next change up to this seq; None if there is none."""
        change = self._held or next(self._events)
        self._held = None
        if change is not None and change.seq > until:
            self._held = change
            return None
        return change

    def close(self) -> None:
        self._follower.close()

    @property
    def reader(self) -> ChangesReader:
        return self._follower.reader

    def _each(self) -> Iterator[Change | None]:
        while True:
            found = False
            for event in self._follower.read(WAIT_S):
                if isinstance(event, RowChanged | Truncated | ChangeUnwritable) and event.seq > self.after:
                    found = True
                    yield event
            if not found and not self._follower.offset < self._follower.end():
                yield None


class PastChanges:
    """Reads stretches of the log for those who are behind, on a few threads."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="past-changes")
        self._idle: dict[int, _Place] = {}
        self._guard = threading.Lock()

    async def read(self, after: int, until: int, tables: frozenset[int], most: int) -> Past | None:
        """The next changes behind `after`, at most `most` and not past `until`; None: they are no longer there."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read, after, until, tables, most)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        for place in self._idle.values():
            place.close()

    def _read(self, after: int, until: int, tables: frozenset[int], most: int) -> Past | None:
        try:
            with self._guard:
                idle = self._idle.pop(after, None)
            place = idle or _Place(self._kafka, after)
        except SeqNotInLog:
            return None
        try:
            past = self._scan(place, until, tables, most)
        except (GapInChanges, OffsetOutOfRange):
            place.close()
            return None
        except BaseException:
            place.close()
            raise
        place.after = past.scanned
        self._keep(place)
        return past

    def _scan(self, place: _Place, until: int, tables: frozenset[int], most: int) -> Past:
        found: list[Change] = []
        scanned = place.after
        for _ in range(SCANNED_A_TURN):
            change = place.next(until)
            if change is None:
                break
            scanned = change.seq
            if change.relation.oid in tables:
                found.append(change)
                if len(found) >= most:
                    break
        return Past(found, scanned)

    def _keep(self, place: _Place) -> None:
        with self._guard:
            leaving = [self._idle.pop(place.after, None)]
            self._idle[place.after] = place
            if len(self._idle) > IDLE_READERS:
                leaving.append(self._idle.pop(next(iter(self._idle))))
        for other in leaving:
            if other is not None:
                other.close()
