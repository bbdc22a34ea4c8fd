"""A reader of one query by the rules of the contract, which checks every state that it comes to."""

from collections import Counter
from uuid import uuid4

from msgspec import Struct

from proto.multiset import EMPTY, counted, shifted
from proto.rows import ResultRow, decode_block
from proto.streams.deltas import Standing, Verdict, judge, standing_after
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    Delta,
    DeltaKind,
    FullReason,
)
from proto.tidewire.v1.queries_pb2 import Query


class Seen(Struct, frozen=True):
    """One step: what was told, and the state that it led to."""

    kind: str
    standing: Standing
    rows: Counter[ResultRow]
    reason: str
    sqlstate: str
    message: str
    columns: tuple[str, ...]


class Gap(AssertionError):
    """A delta does not start where the reader stands: something between is missing."""


class Follower:
    """Holds the result as its subscriber would; `seen` is every step of it, the first result included."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.request_id = uuid4().bytes
        # Later requests of the same reader, and the place where each was answered.
        self.asked: set[bytes] = {self.request_id}
        self.answered: dict[bytes, Standing] = {}
        self.standing: Standing | None = None
        self.rows: Counter[ResultRow] = Counter()
        self.order: list[ResultRow] = []
        self.columns: tuple[str, ...] = ()
        self.key_positions: tuple[int, ...] = ()
        self.seen: list[Seen] = []
        self.dropped = 0

    @property
    def has_begun(self) -> bool:
        return bool(self.seen)

    @property
    def error(self) -> Seen | None:
        """The error, if that is what the query gives now."""
        return self.seen[-1] if self.seen and self.seen[-1].kind == "ERROR" else None

    def since(self, step: int) -> list[Seen]:
        return self.seen[step:]

    def take(self, delta: Delta, request_id: bytes) -> None:
        """A whole delta of its query that no fence made void; `request_id` of a snapshot."""
        if request_id and request_id not in self.asked:
            return
        if not self.has_begun and request_id != self.request_id:
            return
        verdict = judge(self.standing, delta)
        if request_id:
            self._answered(delta, request_id, verdict)
        if verdict is Verdict.RESYNC:
            raise Gap(
                f"at {self.standing}, and the next {_kind(delta)} starts at {delta.from_lsn}/{delta.from_moment_us} "
                f"(to {delta.to_lsn}/{delta.moment_us}) of {self.query.sql}"
            )
        if verdict is Verdict.DROP:
            self.dropped += 1
            return
        self._apply(delta)

    def _answered(self, delta: Delta, request_id: bytes, verdict: Verdict) -> None:
        self.answered[request_id] = standing_after(delta)
        if verdict is Verdict.DROP and standing_after(delta) == self.standing and delta.kind == DELTA_KIND_FULL:
            # Two ways to one place: the fold of the deltas and the whole result.
            assert counted(decode_block(delta.rows)) == self.rows, f"the fold differs from the whole: {self.query.sql}"

    def _apply(self, delta: Delta) -> None:
        if delta.columns:
            self.columns = tuple(column.name for column in delta.columns)
        self.key_positions = tuple(delta.key_positions)
        if delta.kind == DELTA_KIND_ERROR:
            self.rows, self.order = Counter(), []
        else:
            self._fold(delta)
        self.standing = standing_after(delta)
        self.seen.append(
            Seen(
                kind=_kind(delta),
                standing=self.standing,
                rows=Counter(self.rows),
                reason=FullReason.Name(delta.full_reason).removeprefix("FULL_REASON_"),
                sqlstate=delta.error_sqlstate,
                message=delta.error_message,
                columns=self.columns,
            )
        )

    def _fold(self, delta: Delta) -> None:
        moved = list(decode_block(delta.rows))
        if delta.kind == DELTA_KIND_FULL:
            self.rows, self.order = counted(moved), [row for row, weight in moved for _ in range(weight)]
        else:
            for row, weight in moved:
                self.rows[row] += weight
                assert self.rows[row] >= 0, f"{row} was taken away and was not there: {self.query.sql}"
                if not self.rows[row]:
                    del self.rows[row]
        assert delta.row_count == self.rows.total(), f"told {delta.row_count} rows, held {self.rows.total()}"
        assert delta.state_hash == shifted(EMPTY, self.rows.items()), f"the state hash is another: {self.query.sql}"


def _kind(delta: Delta) -> str:
    return DeltaKind.Name(delta.kind).removeprefix("DELTA_KIND_")
