"""A worker that writes `deltas`, and clients that read F2, F3, F4 and F7, both by the documents."""

from collections import Counter
from uuid import UUID

from proto.multiset import EMPTY, shifted
from proto.pgwire.framing import Framer
from proto.pgwire.live import Ack, Data, PartialData, Refused, Update, decode_from_gateway
from proto.positions import parse_lsn
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

QUERY_ID = bytes(range(16))
PARAMETER_STATUS = ord("S")


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
        before = self._of(partial.values[0])
        assert before is not None and len(before) == partial.columns
        after = tuple(partial.values.get(at, value) for at, value in enumerate(before))
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
        self.held: dict[UUID, Held] = {}
        self.lsn = None
        self.batches = 0

    def send(self, data):
        framer = Framer()
        framer.feed(data)
        frames = list(framer.frames())
        assert framer.pending_bytes == 0
        for frame in frames:
            if frame.type == PARAMETER_STATUS:
                name, value = frame.body.rstrip(b"\0").split(b"\0")
                assert name == b"tidewire.lsn" and frame is frames[-1]
                self.lsn = parse_lsn(value.decode())
                continue
            message = decode_from_gateway(frame)
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
