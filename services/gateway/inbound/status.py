"""The topic `status`: what each process said last, read from the end on in a thread."""

import threading
import time
from collections import deque
from collections.abc import Callable

from google.protobuf.message import DecodeError
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.status_pb2 import Status
from proto.topics import STATUS
from services.chassis.kafka import Kafka, KafkaRefused, KafkaUnreachable, OffsetOutOfRange, Reader, TopicMissing

CLIENT_ID = "gateway-status"
MESSAGES_A_READ = 200
WAIT_S = 0.5
AGAIN_S = 2.0
# A process that said nothing for so long is forgotten.
FORGOTTEN_S = 120.0
MOST_PROCESSES = 500
PLACES_KEPT = 30
DURABLE = "tidewire_capture_durable_lsn"


class Statuses:
    """The thread writes, the loop reads: each process's record is replaced whole."""

    def __init__(self, kafka: Kafka, *, log: FilteringBoundLogger, clock: Callable[[], float] = time.time) -> None:
        self._kafka, self._log, self._clock = kafka, log, clock
        self._has_met_garbage = False
        self._told: dict[str, Status] = {}
        # When capture said so, and up to where Kafka had the log then.
        self._durable: deque[tuple[int, float]] = deque(maxlen=PLACES_KEPT)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def every(self) -> list[Status]:
        """Of each process what it said last, by service and instance; those that ended or were silent for long not."""
        found = [one for one in list(self._told.values()) if one.written_us >= self._oldest_us]
        return sorted(found, key=lambda one: (one.service, one.started_us, one.instance))

    def durable_lsn(self, at_us: int) -> float | None:
        """Up to where Kafka had the log at that moment, as capture said last before it."""
        return next((lsn for said_us, lsn in reversed(list(self._durable)) if said_us <= at_us), None)

    def take_record(self, value: bytes | None) -> None:
        """A record has come; one that is no status is left out, and only the first is told of."""
        try:
            status = STATUS.decode(value or b"")
        except DecodeError as error:
            if not self._has_met_garbage:
                self._log.warning("status_unreadable", reason=str(error))
            self._has_met_garbage = True
        else:
            self.take(status)

    def take(self, status: Status) -> None:
        """A process has spoken."""
        key = f"{status.service}/{status.instance}"
        if status.is_last:
            self._told.pop(key, None)
            return
        if key not in self._told and len(self._told) >= MOST_PROCESSES:
            oldest_us = self._oldest_us
            self._told = {name: one for name, one in self._told.items() if one.written_us >= oldest_us}
        if len(self._told) < MOST_PROCESSES or key in self._told:
            self._told[key] = status
        if status.service == "capture" and DURABLE in status.figures:
            self._durable.append((status.written_us, status.figures[DURABLE]))

    @property
    def _oldest_us(self) -> int:
        return int((self._clock() - FORGOTTEN_S) * 1e6)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._read_on()
            except (KafkaUnreachable, KafkaRefused, TopicMissing, OffsetOutOfRange):
                self._over.wait(AGAIN_S)

    def _read_on(self) -> None:
        reader = Reader(self._kafka, STATUS.name, client_id=CLIENT_ID)
        try:
            reader.seek_to(reader.low_and_high()[1])
            while not self._over.is_set():
                for message in reader.read(MESSAGES_A_READ, WAIT_S):
                    self.take_record(message.value())
        finally:
            reader.close()
