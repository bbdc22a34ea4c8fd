"""The content of a partition of `deltas`: the last state of each query, and the answered requests."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from proto.multiset import EMPTY, counted, shifted
from proto.rows import decode_block
from proto.streams.deltas import Verdict, judge, standing_after
from proto.streams.fencing import Fencing, Writer
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, DELTA_KIND_FULL, Delta, DeltaRecord
from services.recompute.core.result import State, columns_key

# A request stays in `queries` for ten minutes: so many are not answered in that time.
REMEMBERED_ANSWERS = 100_000


class Answered:
    """Ids of requests that were answered; the oldest are dropped."""

    def __init__(self, requests: Iterable[bytes] = ()) -> None:
        self._requests: OrderedDict[bytes, None] = OrderedDict.fromkeys(requests)

    def __contains__(self, request_id: bytes) -> bool:
        return request_id in self._requests

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._requests)

    def add(self, *requests: bytes) -> None:
        for request_id in requests:
            self._requests[request_id] = None
        while len(self._requests) > REMEMBERED_ANSWERS:
            self._requests.popitem(last=False)


class Emitted:
    """Folds one partition, record by record."""

    def __init__(self, states: dict[bytes, State] | None = None, answered: Iterable[bytes] = ()) -> None:
        self.fencing = Fencing()
        self.states: dict[bytes, State] = states or {}
        self.answered = Answered(answered)
        self._parts = Assembler()

    def feed(self, record: DeltaRecord) -> None:
        writer = Writer(record.epoch, record.writer)
        body = record.WhichOneof("body")
        if body == "fence":
            self.fencing.fence(writer)
        elif not self.fencing.admits(writer):
            return
        elif body == "delta":
            self._fold(self._parts.feed(record.delta))
        elif body == "snapshot":
            snapshot = record.snapshot
            whole = self._parts.feed(snapshot.result, snapshot.request_id)
            if whole is not None:
                self.answered.add(snapshot.request_id)
                self._fold(whole)

    @property
    def epoch(self) -> int:
        return self.fencing.in_force.epoch if self.fencing.in_force is not None else 0

    def _fold(self, delta: Delta | None) -> None:
        if delta is None:
            return
        known = self.states.get(delta.query_id)
        verdict = judge(known.standing if known else None, delta)
        if verdict is Verdict.DROP and not (known and _tells_rows(known, delta)):
            return
        self.states[delta.query_id] = _after(known, delta, verdict)


def _tells_rows(known: State, delta: Delta) -> bool:
    """Whether the delta has the rows of a state of which only the position is known.

    A result may change before its first reader gets it: then a NET is written before the first FULL.
    """
    is_unknown = known.rows is None and not known.is_error
    return is_unknown and delta.kind == DELTA_KIND_FULL and standing_after(delta) == known.standing


def _after(known: State | None, delta: Delta, verdict: Verdict) -> State:
    standing = standing_after(delta)
    if delta.kind == DELTA_KIND_ERROR:
        return State(standing, None, (), is_error=True)
    columns = columns_key(delta.columns) if delta.columns else known.columns if known else ()
    if delta.kind == DELTA_KIND_FULL:
        rows = counted(decode_block(delta.rows))
        state_hash = shifted(EMPTY, rows.items())
    elif verdict is Verdict.RESYNC or known is None or known.rows is None:
        return State(standing, None, columns)
    else:
        rows, net = known.rows, counted(decode_block(delta.rows))
        state_hash = shifted(known.state_hash, net.items())
        for row, weight in net.items():
            rows[row] += weight
            if not rows[row]:
                del rows[row]
    if state_hash != delta.state_hash:
        return State(standing, None, columns)
    return State(standing, rows, columns, state_hash=state_hash)
