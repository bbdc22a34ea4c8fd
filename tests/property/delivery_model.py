"""A worker that writes `deltas`, and clients of a door without a wire format: its messages are Python objects."""

from collections import Counter
from enum import Enum
from uuid import UUID

from msgspec import Struct

from proto.multiset import EMPTY, shifted
from proto.rows import decode_row, decode_rows
from proto.streams import parts
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    DELTA_KIND_PROGRESS,
    FULL_REASON_STATE_LOST,
    Delta,
    DeltaRecord,
    Snapshot,
)
from services.gateway.core.delivery.whole_result import WholeResult
from services.gateway.errors import RefusalCode

QUERY_ID = bytes(range(16))
# In a refusal: there never was a subscription.
NO_SUBSCRIPTION = None


class Update(Enum):
    FULL = "full"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


class Ack(Struct, frozen=True):
    subscription: UUID
    tables: int


class Refused(Struct, frozen=True):
    subscription: UUID | None
    message: str


class Data(Struct, frozen=True):
    subscription: UUID
    update: Update
    rows: tuple


class PartialData(Struct, frozen=True):
    """Rows as (column count, values by position); only doors with partial rows send it."""

    subscription: UUID
    rows: tuple


class State(Struct, frozen=True):
    """The state that the messages before it led to."""

    lsn: int


class PlainBatch:
    def __init__(self, messages, lsn):
        self.messages, self.lsn = messages, lsn

    def addressed(self, subscription):
        messages = [Data(UUID(bytes=subscription), update, rows) for update, rows in self.messages]
        return messages if self.lsn is None else [*messages, State(self.lsn)]


class PlainEncoder(Struct, frozen=True):
    """`option` makes encoders differ, as the options of a real door do."""

    wants_lsn: bool = False
    option: int = 0

    def update(self, update, lsn):
        if isinstance(update, WholeResult):
            rows = tuple(decode_rows(update.rows))
            assert len(rows) == update.row_count
            messages = [(Update.FULL, rows)]
        else:
            messages = [
                (Update.DELETE, tuple(map(decode_row, update.removed))),
                (Update.UPDATE, tuple(one.row for one in update.updated)),
                (Update.INSERT, tuple(map(decode_row, update.added))),
            ]
            messages = [message for message in messages if message[1]]
        return PlainBatch(messages, lsn if self.wants_lsn else None)

    def acknowledgement(self, subscription, tables, key_positions):
        return [Ack(UUID(bytes=subscription), tables)]

    def refusal(self, subscription, refusal):
        known = NO_SUBSCRIPTION if refusal.code is RefusalCode.NOT_REGISTERED else UUID(bytes=subscription)
        return [Refused(known, refusal.message)]


class Worker:
    """One query's result, and the records that recompute would write about it."""

    def __init__(self, *, keyed=True, epoch=1, writer=7, query_id=QUERY_ID):
        self.rows, self.lsn, self.keyed = Counter(), 100, keyed
        self.epoch, self.writer, self._query_id = epoch, writer, query_id
        self.states = {}
        self._remember()

    def change(self, net):
        before = self.lsn
        self.lsn += 10
        for row, weight in net.items():
            self.rows[row] += weight
        assert all(count >= 0 for count in self.rows.values())
        self.rows = +self.rows
        self._remember()
        kind = DELTA_KIND_NET if net else DELTA_KIND_PROGRESS
        return self._deltas(self._delta(kind, before), net.items())

    def full(self, reason=FULL_REASON_STATE_LOST, rows=None):
        before = self.lsn
        self.lsn += 10
        if rows is not None:
            self.rows = Counter(rows)
        self._remember()
        return self._deltas(self._delta(DELTA_KIND_FULL, before, full_reason=reason), self.rows.items())

    def error(self, sqlstate="22012", message="division by zero"):
        self.lsn += 10
        delta = self._delta(DELTA_KIND_ERROR, 0, error_sqlstate=sqlstate, error_message=message, last=True)
        return [self._record(delta=delta)]

    def snapshot(self, request: UUID):
        whole = parts.cut(self._delta(DELTA_KIND_FULL, 0), self.rows.items())
        return [
            self._record(snapshot=Snapshot(request_id=request.bytes, gateway_id="g", result=part)) for part in whole
        ]

    def failed_snapshot(self, request: UUID, sqlstate="22012", message="division by zero"):
        delta = self._delta(DELTA_KIND_ERROR, 0, error_sqlstate=sqlstate, error_message=message, last=True)
        return [self._record(snapshot=Snapshot(request_id=request.bytes, gateway_id="g", result=delta))]

    def _remember(self):
        self.states[self.lsn] = Counter(self.rows)

    def _deltas(self, delta, rows):
        return [self._record(delta=part) for part in parts.cut(delta, rows)]

    def _delta(self, kind, from_lsn, **fields):
        return Delta(
            query_id=self._query_id,
            from_lsn=from_lsn,
            to_lsn=self.lsn,
            history=1,
            kind=kind,
            key_positions=[0] if self.keyed else [],
            state_hash=shifted(EMPTY, self.rows.items()),
            row_count=self.rows.total(),
            **fields,
        )

    def _record(self, **body):
        return DeltaRecord(epoch=self.epoch, writer=self.writer, **body)


class Held:
    """What one subscription of a client adds up to, by the rules of the documents (V32, V33, V42, V43, V53)."""

    def __init__(self, *, keyed):
        self.keyed = keyed
        self.rows = None
        self.acked = self.ended = False
        self.errors = []
        self.messages = []

    def take(self, message):
        assert not self.ended
        self.messages.append(message)
        match message:
            case Ack():
                assert not self.acked
                self.acked = True
            case Refused(message=text):
                self.errors.append(text)
            case Data(update=Update.FULL, rows=rows):
                self.rows = Counter(rows)
            case Data(update=Update.INSERT, rows=rows):
                assert rows and self.rows is not None
                for row in rows:
                    assert not self.keyed or self._of(row[0]) is None
                    self.rows[row] += 1
            case Data(update=Update.DELETE, rows=rows):
                assert rows
                for row in rows:
                    self._drop(row)
            case Data(update=Update.UPDATE, rows=rows):
                assert rows and self.keyed
                for row in rows:
                    before = self._of(row[0])
                    assert before is not None and before != row
                    self._drop(before)
                    self.rows[row] += 1
            case PartialData(rows=rows):
                assert rows and self.keyed
                for partial in rows:
                    self._merge(partial)

    def _merge(self, partial):
        columns, values = partial
        before = self._of(values[0])
        assert before is not None and len(before) == columns
        after = tuple(values.get(at, value) for at, value in enumerate(before))
        assert before != after
        self._drop(before)
        self.rows[after] += 1

    def _of(self, key):
        return next((row for row in self.rows if row[0] == key), None)

    def _drop(self, row):
        assert self.rows[row] > 0
        self.rows[row] -= 1
        self.rows = +self.rows


class Client:
    """A connection: its outlet, and all that its subscriptions hold."""

    def __init__(self, *, keyed=True):
        self.congested = False
        self.keyed = keyed
        self.held: dict[UUID | None, Held] = {}
        self.lsn = None
        self.batches = 0

    def send(self, messages):
        for message in messages:
            if isinstance(message, State):
                assert message is messages[-1]
                self.lsn = message.lsn
                continue
            if isinstance(message, Ack):
                self.held[message.subscription] = Held(keyed=self.keyed)
            held = self.held.get(message.subscription)
            if held is None:
                assert isinstance(message, Refused)
                held = self.held.setdefault(message.subscription, Held(keyed=self.keyed))
            assert held.acked or isinstance(message, Ack | Refused)
            # A reader who does not read is told nothing but that something is over.
            assert not self.congested or isinstance(message, Ack | Refused)
            held.take(message)
        self.batches += 1
