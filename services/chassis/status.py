"""What a process says of itself on the topic `status`, for the administrators' page: from a thread, every few seconds.

It never stands in the way: while Kafka does not answer nothing is kept, and nothing waits.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from proto.tidewire.v1.status_pb2 import Status
from proto.topics import STATUS
from services.chassis.health import Progress
from services.chassis.kafka import (
    DeliveryFailed,
    Kafka,
    KafkaRefused,
    KafkaUnreachable,
    RecordTooLarge,
    TopicMismatch,
    TopicRefused,
    Writer,
    ensure_topics,
)
from services.chassis.metrics import build_version

EVERY_S = 2.0
GIVEN_UP_S = 5.0
LAST_WORDS_S = 0.5
SHOWN = ("tidewire_", "vibesql_subscriptions_active", "process_resident_memory_bytes", "process_cpu_seconds_total")
TROUBLES = (DeliveryFailed, KafkaRefused, KafkaUnreachable, RecordTooLarge, TopicMismatch, TopicRefused)


def _nothing(status: Status) -> None:
    """The default for a service with nothing to add."""


class StatusWriter:
    """`add` is called in this thread and may add what only the service knows."""

    def __init__(
        self,
        kafka: Kafka,
        service: str,
        registry: CollectorRegistry,
        progress: Progress,
        *,
        add: Callable[[Status], None] = _nothing,
        every_s: float = EVERY_S,
    ) -> None:
        self._kafka, self._service, self._registry, self._progress = kafka, service, registry, progress
        self._add, self._every_s = add, every_s
        self._instance, self._started_us = secrets.token_hex(6), time.time_ns() // 1000
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    def start(self) -> "StatusWriter":
        self._thread.start()
        return self

    def close(self) -> None:
        """Say that the process ends, if Kafka takes it at once."""
        self._over.set()
        self._thread.join(2 * LAST_WORDS_S)

    def record(self, *, is_last: bool = False) -> Status:
        """What is said now."""
        ready, reason = self._progress.state()
        status = Status(
            service=self._service,
            instance=self._instance,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=build_version(),
            started_us=self._started_us,
            written_us=time.time_ns() // 1000,
            every_ms=int(1000 * self._every_s),
            ready=ready and not is_last,
            reason="stopped" if is_last else reason,
            is_last=is_last,
        )
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.labels and sample.name.startswith(SHOWN):
                    status.figures[sample.name] = float(sample.value)
        self._add(status)
        return status

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(*TROUBLES):
                self._write_on()
            self._over.wait(self._every_s)

    def _write_on(self) -> None:
        """Until the end, or until Kafka refuses."""
        ensure_topics(self._kafka, (STATUS,), timeout_s=GIVEN_UP_S)
        extra = {"message.timeout.ms": int(1000 * GIVEN_UP_S)}
        writer = Writer(self._kafka, STATUS.name, client_id=f"{self._service}-status", partition=0, extra=extra)
        key = f"{self._service}/{self._instance}".encode()
        try:
            while not self._over.is_set():
                writer.send(self.record().SerializeToString(), key=key)
                writer.flush(LAST_WORDS_S)
                self._over.wait(self._every_s)
            writer.send(self.record(is_last=True).SerializeToString(), key=key)
            writer.flush(LAST_WORDS_S)
        finally:
            writer.close()
