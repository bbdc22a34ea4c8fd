"""Takes over the replication slot and the log: records of earlier writers no longer count afterwards."""

import time
from collections.abc import Callable

import psycopg
from structlog.typing import FilteringBoundLogger

from proto.positions import Lsn
from proto.streams.fencing import Writer as Identity
from proto.tidewire.v1.changes_pb2 import Fence, HistoryBegin
from services.capture.core.assembly import Position
from services.capture.core.continuity import BeginHistory, Continuity, Database, Tail, judge
from services.capture.core.records import Header
from services.capture.errors import SlotInUse, SlotTaken
from services.capture.inbound.replication import Replication
from services.capture.outbound import ledger, slot
from services.capture.outbound.changes import ChangesLog, LogTail
from services.capture.settings import Capture
from services.chassis.backoff import Backoff
from services.chassis.health import Progress
from services.chassis.run import Stop, Stopped

LOOK_EVERY_S = 0.05


class Patience:
    """Called while waiting: keeps the walsender alive, reports not ready, and stops on request."""

    def __init__(self, progress: Progress, stop: Stop) -> None:
        self._progress, self._stop = progress, stop
        self.keep_alive: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        self._progress.beat()
        self.keep_alive()
        if self._stop.requested:
            raise Stopped


class Takeover:
    """The steps from a free slot to a fence in the log; the process may crash after any of them."""

    def __init__(
        self,
        *,
        settings: Capture,
        connection: psycopg.Connection,
        replication: Replication,
        publications: list[str],
        tail: LogTail,
        patience: Patience,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._connection, self._replication = settings, connection, replication
        self._publications, self._tail, self._patience, self._log = publications, tail, patience, log

    def take_slot(self) -> tuple[Database, Continuity, Tail | None, Lsn]:
        """Hold the slot, and know whether the log can be continued from it."""
        database = self._replication.identify()
        continuity, _ = self._judged(database)
        if isinstance(continuity, BeginHistory) and not continuity.keep_slot:
            self._log.warning("slot_created", because=HistoryBegin.Name(continuity.because), slot=self._settings.slot)
            self._wait_for_slot(lambda: self._drop_slot(database))
            made = slot.create(self._connection, self._settings.slot, while_waiting=self._patience)
            self._start_replication()
            return database, continuity, self._read_tail(), made.confirmed_lsn
        self._start_replication()
        # Only now nobody else can acknowledge, and what was acknowledged must stand in the log.
        continuity, tail = self._judged(database)
        held = slot.find(self._connection, self._settings.slot)
        assert held is not None
        return database, continuity, tail, held.confirmed_lsn

    def fence(
        self,
        changes: ChangesLog,
        database: Database,
        continuity: Continuity,
        tail: Tail | None,
        slot_lsn: Lsn,
        writer: int,
    ) -> tuple[Header, Position]:
        """Write our fence, and return where to continue."""
        noted = ledger.read(self._connection)
        begins = isinstance(continuity, BeginHistory)
        epoch, history = ledger.reserve(
            self._connection,
            slot=self._settings.slot,
            walsender_pid=self._replication.process_id,
            above=tail.epoch if tail else 0,
            history_above=continuity.history - 1 if begins else None,
        )
        if isinstance(continuity, BeginHistory):
            continuity = continuity.numbered(history)
        header = Header(
            identity=Identity(epoch, writer),
            history=continuity.history,
            system_identifier=database.system_identifier,
            timeline=database.timeline,
        )
        if isinstance(continuity, BeginHistory):
            position = Position(slot_lsn, continuity.first_seq)
            fence = Fence(
                began_because=continuity.because,
                database=database.name,
                history_lsn=position.lsn,
                history_seq=position.seq,
                begins_history=True,
            )
        else:
            assert tail is not None
            position = Position(tail.committed_lsn, tail.committed_seq)
            fence = Fence(database=database.name)
        offset = changes.fence(header, fence, position)
        before = self._tail.read_up_to_fence(header.identity, noted, noted.fence_offset, offset)
        ledger.note_fenced(self._connection, epoch=epoch, history=continuity.history, fence_offset=offset)
        if not isinstance(continuity, BeginHistory):
            position = Position(before.committed_lsn, before.committed_seq)
        return header, position

    def _drop_slot(self, database: Database) -> None:
        # Whoever held the slot while we waited may have begun the history that we were to begin.
        continuity, _ = self._judged(database)
        if not isinstance(continuity, BeginHistory) or continuity.keep_slot:
            raise SlotTaken(self._settings.slot)
        slot.drop(self._connection, self._settings.slot)

    def _start_replication(self) -> None:
        self._wait_for_slot(lambda: self._replication.start(self._publications))
        self._log.info("slot_taken", slot=self._settings.slot)

    def _judged(self, database: Database) -> tuple[Continuity, Tail | None]:
        tail = self._read_tail()
        found = slot.find(self._connection, self._settings.slot)
        noted = ledger.read(self._connection)
        return judge(tail=tail, ledger=noted, slot=found, database=database), tail

    def _read_tail(self) -> Tail | None:
        noted = ledger.read(self._connection)
        return self._tail.read(noted, noted.fence_offset)

    def _wait_for_slot(self, attempt: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._settings.slot_wait_s
        for delay_s in Backoff(first_s=0.1, cap_s=1.0).delays():
            try:
                attempt()
                return
            except SlotInUse as error:
                if time.monotonic() > deadline:
                    raise SlotInUse(self._settings.slot, slot.holder(self._connection, self._settings.slot)) from error
                self._log.info("slot_waited_for", slot=self._settings.slot)
            until = time.monotonic() + delay_s
            while time.monotonic() < until:
                self._patience()
                time.sleep(LOOK_EVERY_S)
