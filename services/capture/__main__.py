"""Builds capture and runs it: `python -m services.capture`."""

import secrets
import time
from threading import Event, Thread

import psycopg
from structlog.typing import FilteringBoundLogger

from proto.positions import format_lsn
from proto.topics import FLOW
from services.capture.errors import ReplicationEnded, SlotTaken, Superseded
from services.capture.flow.stream import Stream
from services.capture.flow.takeover import Patience, Takeover
from services.capture.inbound.replication import Replication
from services.capture.metrics import Metrics
from services.capture.outbound import slot, watch
from services.capture.outbound.changes import ChangesLog, LogTail
from services.capture.settings import Settings
from services.chassis import health, logs
from services.chassis.backoff import Backoff
from services.chassis.kafka import KafkaUnreachable, ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.postgres import PostgresUnreachable, connect
from services.chassis.run import Stop, Stopped, entry
from services.chassis.status import StatusWriter

APPLICATION_NAME = "tidewire capture"
# Session settings that our scripts rely on, whatever the database or role has set.
SESSION = "-c default_transaction_read_only=off -c standard_conforming_strings=on -c statement_timeout=0"

# Errors after which the process tries again; any other error ends it.
OUTAGES = (PostgresUnreachable, KafkaUnreachable, ReplicationEnded, SlotTaken, Superseded, psycopg.OperationalError)
# After a session of this length the pause before the next attempt is short again.
LASTING_S = 60.0
KAFKA_TIMEOUT_S = 5.0
# Longer than the longest single wait, which is for a connection: else /readyz would report a stale loop, not the cause.
STALE_AFTER_S = 15.0


class Capture:
    """Runs replication sessions one after the other until the process is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log: FilteringBoundLogger = logs.configure("capture", "info")
        self._stop = Stop().on_signals()
        self._progress = health.Progress(STALE_AFTER_S)
        registry = new_registry("capture")
        self._metrics = Metrics(registry)
        health.serve(settings.http, registry, self._progress)
        self._status = StatusWriter(settings.kafka, "capture", registry, self._progress)
        self._writer = secrets.randbits(64)
        self._installed = False

    def run(self) -> None:
        self._status.start()
        delays = Backoff().delays()
        while not self._stop.requested:
            began_at = time.monotonic()
            try:
                self._session()
            except Stopped:
                break
            except OUTAGES as error:
                self._progress.not_ready(str(error))
                self._metrics.epoch.set(0)  # the log is nobody's, or another's
                self._log.warning("session_ended", error=str(error))
                if time.monotonic() - began_at > LASTING_S:
                    delays = Backoff().delays()
                self._pause(next(delays))
        self._status.close()
        self._log.info("stopped")

    def _session(self) -> None:
        settings = self._settings
        patience = Patience(self._progress, self._stop)
        ensure_topics(settings.kafka, FLOW, timeout_s=KAFKA_TIMEOUT_S)
        self._progress.beat()
        with connect(settings.postgres, application_name=APPLICATION_NAME, options=SESSION) as connection:
            installed = watch.install(connection, settings.capture.lock_timeout_ms, only_again=self._installed)
            self._installed = True
            self._log.info("database_watched", mode=installed.mode.value, pending=installed.pending)
            for reason in installed.reasons:
                self._log.warning("watching_weakened", reason=reason)
            replication = Replication(
                settings.postgres,
                slot=settings.capture.slot,
                wal_sender_timeout_ms=settings.capture.wal_sender_timeout_ms,
            )
            changes = ChangesLog(settings.kafka, record_bytes=settings.capture.record_bytes, while_waiting=patience)
            tail = LogTail(settings.kafka, while_waiting=patience)
            try:
                with replication, Caretaker(settings, self._metrics, self._log):
                    self._stream(connection, replication, changes, tail, patience)
            finally:
                tail.close()
                changes.close()

    def _stream(
        self,
        connection: psycopg.Connection,
        replication: Replication,
        changes: ChangesLog,
        tail: LogTail,
        patience: Patience,
    ) -> None:
        capture = self._settings.capture
        self._progress.not_ready("taking over the log")
        takeover = Takeover(
            settings=capture,
            connection=connection,
            replication=replication,
            publications=watch.publications(connection),
            tail=tail,
            patience=patience,
            log=self._log,
        )
        database, continuity, last, slot_lsn = takeover.take_slot()
        patience.keep_alive = lambda: replication.acknowledge(changes.durable_lsn)
        header, start = takeover.fence(changes, database, continuity, last, slot_lsn, self._writer)
        self._log.info(
            "log_taken_over",
            epoch=header.identity.epoch,
            history=header.history,
            lsn=format_lsn(start.lsn),
            next_seq=start.seq,
            slot_lsn=format_lsn(slot_lsn),
        )
        self._metrics.epoch.set(header.identity.epoch)
        self._metrics.history.set(header.history)
        stream = Stream(
            settings=capture,
            replication=replication,
            changes=changes,
            start=start,
            progress=self._progress,
            stop=self._stop,
            metrics=self._metrics,
        )
        patience.keep_alive = stream.keep_alive
        stream.run()

    def _pause(self, seconds: float) -> None:
        self._progress.beat()
        self._stop.wait(seconds)


class Caretaker:
    """Retries, beside the stream, to prepare tables that were locked when they were first tried."""

    def __init__(self, settings: Settings, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._settings, self._metrics, self._log = settings, metrics, log
        self._over = Event()
        self._thread = Thread(target=self._run, name="caretaker", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                name = f"{APPLICATION_NAME} caretaker"
                with connect(self._settings.postgres, application_name=name, options=SESSION) as connection:
                    while not self._over.wait(self._settings.capture.sweep_s):
                        self._metrics.pending_tables.set(watch.sweep(connection))
                        self._metrics.slot_bytes.set(slot.kept_bytes(connection, self._settings.capture.slot))
            except (psycopg.Error, PostgresUnreachable) as error:
                self._log.warning("sweep_failed", error=str(error))
                self._over.wait(self._settings.capture.sweep_s)


if __name__ == "__main__":
    entry(
        lambda settings: Capture(settings).run(),
        service="capture",
        description="Writes every committed change of a PostgreSQL database to the topic `changes`.",
        settings_type=Settings,
    )
