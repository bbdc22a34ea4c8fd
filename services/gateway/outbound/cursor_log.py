"""The topic `cursors`: records appended in groups, each answered when the broker has it; and all of it folded."""

import asyncio
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from msgspec import Struct

from proto.tidewire.v1.cursors_pb2 import CdcCursor, CdcSubscription, CursorRecord, GroupOffset, PreparedQuery
from proto.topics import CURSORS
from services.chassis.kafka import DeliveryFailed, Kafka, KafkaRefused, KafkaUnreachable, Reader, TopicMissing, Writer
from services.gateway.errors import CursorsUnavailable

CLIENT_ID = "gateway-cursors"
WRITTEN_S = 10.0
READ_S = 2.0
MESSAGES_A_READ = 5_000
SILENCES = 5

Keyed: TypeAlias = tuple[bytes, CursorRecord | None]


class Written(Struct, frozen=True, kw_only=True):
    """What a record of a cursor says."""

    acked: int
    history: int
    paused: bool
    version: int


class Folded(Struct):
    """All that is on the topic: of each cursor the greatest values and the place of its last record."""

    subscriptions: dict[str, CdcSubscription]
    cursors: dict[str, tuple[CdcCursor, int]]
    queries: dict[str, PreparedQuery]
    # Of each group and partition of a user topic, with the last record itself, which may say less.
    groups: dict[str, tuple[GroupOffset, int, GroupOffset]]


class _Waiting(Struct):
    records: tuple[Keyed, ...]
    answer: asyncio.Future[int]


class CursorLog:
    """One writer on one thread: whoever waits while it writes is in the next group."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._writer: Writer | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cursors")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="cursors-fold")
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def append(self, *records: Keyed) -> int:
        """The place of the last of them, once the broker has them all; raises CursorsUnavailable."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(records, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
        return await answer

    async def fold(self) -> Folded:
        """Everything up to the end of now; raises CursorsUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._fold)

    async def close(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=WRITTEN_S)
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._reading.shutdown(wait=False, cancel_futures=True)
        if self._writer is not None:
            self._writer.close()

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                places = await loop.run_in_executor(self._thread, self._write, [each.records for each in group])
            except Exception as error:
                for each in group:
                    if not each.answer.done():
                        each.answer.set_exception(CursorsUnavailable(f"the cursor was not written: {error}"))
                continue
            for each, place in zip(group, places, strict=True):
                if not each.answer.done():
                    each.answer.set_result(place)

    def _write(self, groups: list[tuple[Keyed, ...]]) -> list[int]:
        if self._writer is None:
            self._writer = Writer(self._kafka, CURSORS.name, client_id=CLIENT_ID, partition=0)
        places: list[int] = [-1] * len(groups)

        def noting(index: int) -> "_Noting":
            return _Noting(places, index)

        try:
            for index, records in enumerate(groups):
                for key, record in records:
                    self._writer.send(_value(record), key=key, on_delivered=noting(index))
            left = self._writer.flush(WRITTEN_S)
        except DeliveryFailed:
            self._writer.close()
            self._writer = None
            raise
        if left:
            # Whether they will be written is not known; what comes late cannot lower anything.
            self._writer.close()
            self._writer = None
            raise CursorsUnavailable("Kafka does not answer")
        return places

    def _fold(self) -> Folded:
        try:
            reader = Reader(self._kafka, CURSORS.name, client_id=CLIENT_ID)
            try:
                return folded(_records(reader))
            finally:
                reader.close()
        except (KafkaUnreachable, KafkaRefused, TopicMissing) as error:
            raise CursorsUnavailable(str(error)) from error


class _Noting:
    """Notes the offset of a group's last record."""

    def __init__(self, places: list[int], index: int) -> None:
        self._places, self._index = places, index

    def __call__(self, offset: int) -> None:
        self._places[self._index] = max(self._places[self._index], offset)


def _records(reader: Reader) -> Iterable[tuple[int, bytes, bytes | None]]:
    low, high = reader.low_and_high()
    if low == high:
        return
    reader.seek_to(low)
    silences = 0
    while reader.position < high:
        messages = reader.read(MESSAGES_A_READ, READ_S)
        for message in messages:
            offset = message.offset()
            assert offset is not None
            value = message.value()
            yield offset, message.key() or b"", value
        # Behind the last record compaction may have left nothing up to the end.
        silences = 0 if messages else silences + 1
        if silences >= SILENCES:
            raise CursorsUnavailable("`cursors` could not be read to its end")


def folded(records: Iterable[tuple[int, bytes, bytes | None]]) -> Folded:
    """Cursors take the greatest of each; a tombstone forgets, and a cursor without its subscription counts nothing."""
    found = Folded({}, {}, {}, {})
    for offset, key, value in records:
        kind, _, name = key.decode(errors="replace").partition("/")
        if not value:
            _forget(found, kind, name)
            continue
        record = CURSORS.decode(value)
        match record.WhichOneof("body"):
            case "cdc_subscription":
                found.subscriptions[name] = record.cdc_subscription
            case "cdc_cursor":
                found.cursors[name] = _greatest(found.cursors.get(name), record.cdc_cursor), offset
            case "prepared_query":
                found.queries[name] = record.prepared_query
            case "group_offset":
                held = found.groups.get(name)
                further = record.group_offset
                if held is not None and _group_progress(held[0]) > _group_progress(further):
                    further = held[0]
                found.groups[name] = further, offset, record.group_offset
    return found


def _forget(found: Folded, kind: str, name: str) -> None:
    match kind:
        case "s":
            found.subscriptions.pop(name, None)
        case "c":
            found.cursors.pop(name, None)
        case "q":
            found.queries.pop(name, None)
        case "g":
            found.groups.pop(name, None)


def _group_progress(record: GroupOffset) -> tuple[int, int, int]:
    acked = record.last_acked_offset + 1 if record.HasField("last_acked_offset") else 0
    return record.generation, acked, sum(each.last - each.first + 1 for each in record.retired_beyond)


def _greatest(before: tuple[CdcCursor, int] | None, after: CdcCursor) -> CdcCursor:
    if before is None:
        return after
    held = before[0]
    newest = after if after.flag_version >= held.flag_version else held
    return CdcCursor(
        sub_id=after.sub_id,
        history=max(held.history, after.history),
        acked_seq=max(held.acked_seq, after.acked_seq),
        paused=newest.paused,
        flag_version=newest.flag_version,
    )


def _value(record: CursorRecord | None) -> bytes | None:
    """None is a tombstone."""
    if record is None:
        return None
    record.written_us = time.time_ns() // 1000
    return record.SerializeToString()
