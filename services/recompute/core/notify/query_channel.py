"""One registered query on the channel: which message follows from which evaluation, and with which seq.

Every seq that is drawn goes into a record, also one that nobody is told of, so that whoever goes on from the last
record never draws one twice.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from proto.rows import ResultRow
from proto.tidewire.v1.notifications_pb2 import (
    NOTIFICATION_KIND_BASE,
    NOTIFICATION_KIND_DELTA,
    NOTIFICATION_KIND_FAILED,
    NOTIFICATION_KIND_INVALIDATED,
    NOTIFICATION_KIND_OVERFLOW,
    NOTIFICATION_KIND_RESUBSCRIBED,
    NOTIFICATION_KIND_SILENT,
    Notification,
    NotificationKind,
)
from services.recompute.core.notify import messages
from services.recompute.core.notify.json_values import TypeShape
from services.recompute.core.notify.registration import Registration
from services.recompute.core.notify.row_set import RowSet, SetChange
from services.recompute.core.notify.tails import Tail


class Shown(Struct, frozen=True):
    """The columns of a result: by what they are compared, and how they are printed."""

    key: tuple[bytes, ...]
    type_oids: tuple[int, ...]
    columns: tuple[tuple[str, TypeShape], ...]


class Evaluated(Struct, frozen=True, kw_only=True):
    """A state of the result. `net`: how it came from the state before; None if it does not follow from that."""

    rows: Mapping[ResultRow, int]
    net: Sequence[tuple[ResultRow, int]] | None
    state_hash: bytes
    lsn: int
    shown: Shown


class QueryChannel:
    """Owns seq; `tail` is the last record of the query id, whatever its gen was."""

    def __init__(self, registration: Registration, channel: str, tail: Tail | None) -> None:
        self.registration, self._channel = registration, channel
        self.seq = tail.seq if tail is not None else 0
        self._tail = tail if tail is not None and tail.gen == registration.gen else None
        self._rows: RowSet | None = None
        self.shown: Shown | None = None
        self._printer: messages.RowPrinter | None = None
        self._is_touched = False
        self.is_failed = self._tail is not None and self._tail.is_failed
        self._state_hash, self._lsn = (self._tail.state_hash if self._tail else b""), 0
        # Tables that commits changed before there was a first result.
        self._tables_before: set[int] = set()

    @property
    def is_based(self) -> bool:
        """It has a result, to which its seq belongs."""
        return self.shown is not None and not self.is_failed

    @property
    def lsn(self) -> int:
        return self._lsn

    @property
    def last_hash(self) -> bytes | None:
        """Of the state that clients have, if this gen was told of before by another process."""
        return None if self._tail is None else self._tail.state_hash

    def resubscribed(self) -> Notification:
        """What is told when a registration is new, or ended (P22)."""
        payload = messages.resubscribed(self.registration.query_id, self.registration.gen)
        return self._told(NOTIFICATION_KIND_RESUBSCRIBED, payload)

    def changed_before(self, tables: Iterable[int]) -> None:
        """A commit changed these tables while there was no first result yet."""
        if self.shown is None:
            self._tables_before.update(tables)

    def touched(self, lsn: int) -> Notification | None:
        """A commit changed what the query reads (P13, P21)."""
        if self._is_notify and self.shown is not None:
            self._lsn = lsn
            return self._invalidated()
        self._is_touched = True
        return None

    def failed(self, sqlstate: str) -> Notification | None:
        """It has no result for now; said once."""
        if self.is_failed:
            return None
        self.is_failed = True
        told = self._told(NOTIFICATION_KIND_FAILED, b"")
        told.sqlstate = sqlstate
        return told

    def continued(self, rows: Mapping[ResultRow, int], shown: Shown) -> None:
        """The state that clients have is known exactly: the next evaluation is a change of it."""
        self._show(shown)
        self._rows = None if self._is_notify else RowSet(shown.type_oids, rows)

    def evaluated(self, now: Evaluated, reads: frozenset[int]) -> Notification | None:
        """The result was computed; what the channel carries for it, if anything."""
        self._state_hash, self._lsn = now.state_hash, now.lsn
        was_touched, self._is_touched = self._is_touched, False
        if self.shown is None:
            return self._first(now, bool(self._tables_before & reads))
        is_broken = self.is_failed or now.net is None or now.shown.key != self.shown.key
        if is_broken:
            self._begin(now)
            return self._refetch()
        if self._rows is None:
            return None  # mode notify: told when it was touched
        assert now.net is not None
        change = self._rows.change(now.net)
        return self._moved(change) if change or was_touched else None

    def rows(self, rows: Iterable[ResultRow]) -> Iterable[bytes]:
        """Rows as the channel prints them."""
        assert self._printer is not None
        printer = self._printer
        return (printer(row).encode() for row in rows)

    @property
    def _is_notify(self) -> bool:
        return self.registration.mode == "notify"

    def _first(self, now: Evaluated, is_changed: bool) -> Notification:
        """The state that deltas go on from. What clients may have missed before it they are told to fetch."""
        self._begin(now)
        if self._tail is not None or is_changed:
            return self._refetch()
        return self._told(NOTIFICATION_KIND_BASE, b"")

    def _begin(self, now: Evaluated) -> None:
        self.is_failed = False
        self._show(now.shown)
        self._rows = None if self._is_notify else RowSet(now.shown.type_oids, now.rows)

    def _show(self, shown: Shown) -> None:
        self.shown, self._printer = shown, messages.RowPrinter(shown.columns)

    def _moved(self, change: SetChange) -> Notification:
        self.seq += 1
        if not change:
            return self._told(NOTIFICATION_KIND_SILENT, b"")
        assert self._printer is not None
        query_id, gen = self.registration.query_id, self.registration.gen
        inserted, deleted = map(self._printer, change.inserted), map(self._printer, change.deleted)
        payload = messages.delta(query_id, self.seq, gen, inserted, deleted)
        if len(payload) > messages.budget(self._channel):
            return self._overflow()
        return self._told(NOTIFICATION_KIND_DELTA, payload)

    def _refetch(self) -> Notification:
        if self._is_notify:
            return self._invalidated()
        self.seq += 1
        return self._overflow()

    def _overflow(self) -> Notification:
        payload = messages.overflow(self.registration.query_id, self.seq, self.registration.gen)
        return self._told(NOTIFICATION_KIND_OVERFLOW, payload)

    def _invalidated(self) -> Notification:
        self.seq += 1
        payload = messages.invalidated(self.registration.query_id, self.seq, self.registration.gen)
        return self._told(NOTIFICATION_KIND_INVALIDATED, payload)

    def _told(self, kind: NotificationKind, payload: bytes) -> Notification:
        return Notification(
            query_id=self.registration.query_id,
            gen=self.registration.gen,
            seq=self.seq,
            lsn=self._lsn,
            role=self.registration.role,
            kind=kind,
            payload=payload,
            channel=self._channel,
            state_hash=self._state_hash,
            registered=self.registration.is_registered,
        )
