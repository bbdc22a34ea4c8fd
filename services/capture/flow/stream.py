"""Copies the replication stream into the log until the process stops."""

import time
from select import select

from proto.positions import Lsn
from services.capture.core.assembly import Assembly, Position
from services.capture.inbound.replication import Replication
from services.capture.metrics import Metrics
from services.capture.outbound.changes import ChangesLog
from services.capture.settings import Capture
from services.chassis.health import Progress
from services.chassis.run import Stop

ACKNOWLEDGE_EVERY_S = 1.0
LOOK_EVERY_S = 0.05
MESSAGES_A_TURN = 5000
LAST_FLUSH_S = 10.0
# A server that shuts down waits for our confirmation, which waits for a heartbeat in Kafka.
AWAITED_HEARTBEAT_S = 0.1
SILENT_AFTER_S = 5.0


class Stream:
    """Reads, assembles, writes and acknowledges, turn by turn."""

    def __init__(
        self,
        *,
        settings: Capture,
        replication: Replication,
        changes: ChangesLog,
        start: Position,
        progress: Progress,
        stop: Stop,
        metrics: Metrics,
    ) -> None:
        self._settings, self._replication, self._changes = settings, replication, changes
        self._progress, self._stop, self._metrics = progress, stop, metrics
        self._assembly = Assembly(start, row_limit_bytes=settings.row_limit_bytes)
        self._acknowledged_at = self._heartbeat_at = 0.0
        self._acknowledged_lsn = Lsn(0)
        self._delivered_lsn, self._delivered_at = Lsn(0), time.monotonic()

    def run(self) -> None:
        while not self._stop.requested:
            drained = self._drain()
            self._changes.poll()
            self.keep_alive()
            if drained:
                self._heartbeat()
                select([self._replication.fileno(), self._stop.fileno()], [], [], LOOK_EVERY_S)
        self._changes.flush(LAST_FLUSH_S)
        self._replication.acknowledge(self._changes.durable_lsn)

    def keep_alive(self) -> None:
        """Acknowledge what Kafka has, at least once a second; also while the log takes nothing more."""
        now = time.monotonic()
        self._progress.beat()
        self._metrics.durable_lsn.set(self._changes.durable_lsn)
        trouble = self._trouble(now)
        if trouble is None:
            self._progress.ready()
        else:
            self._progress.not_ready(f"Kafka does not take records: {trouble}")
        awaited = self._replication.is_awaited and self._changes.durable_lsn > self._acknowledged_lsn
        if awaited or now - self._acknowledged_at >= ACKNOWLEDGE_EVERY_S:
            self._acknowledged_at, self._acknowledged_lsn = now, self._changes.durable_lsn
            self._replication.acknowledge(self._acknowledged_lsn)
            self._metrics.lag.set(max(0, self._replication.sent_lsn - self._changes.durable_lsn))

    def _trouble(self, now: float) -> str | None:
        """The error that Kafka's client reports, or that the broker has been silent for too long."""
        if not self._changes.outstanding or self._changes.durable_lsn != self._delivered_lsn:
            self._delivered_lsn, self._delivered_at = self._changes.durable_lsn, now
        silent_s = now - self._delivered_at
        return self._changes.trouble or (f"silent for {silent_s:.0f} s" if silent_s > SILENT_AFTER_S else None)

    def _drain(self) -> bool:
        """Take what PostgreSQL has sent, up to a limit for each turn; True if there is no more now."""
        read, add, limit = self._replication.read, self._assembly.add, self._settings.segment_bytes
        for _ in range(MESSAGES_A_TURN):
            message = read()
            if message is None:
                self._send()
                return True
            add(message)
            if self._assembly.size_bytes >= limit:
                self._send()
        return False

    def _send(self) -> None:
        cut = self._assembly.cut()
        if cut is not None:
            self._metrics.bytes.inc(self._changes.append(cut))
            self._metrics.changes.inc(cut.changes)
            self._metrics.commits.inc(cut.commits)

    def _heartbeat(self) -> None:
        now = time.monotonic()
        pause_s = AWAITED_HEARTBEAT_S if self._replication.is_awaited else self._settings.heartbeat_s
        if now - self._heartbeat_at < pause_s or self._assembly.in_transaction:
            return
        self._heartbeat_at = now
        self._changes.heartbeat(self._assembly.idle_until(self._replication.sent_lsn), time.time_ns() // 1000)
