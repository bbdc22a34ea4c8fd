"""The contract of `deltas`: a reader that follows the rules holds a true state or knows that it holds none."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from proto.multiset import EMPTY, shifted
from proto.positions import Lsn
from proto.rows import decode_block, encode_block
from proto.streams.deltas import PartitionReader, Standing, Verdict, judge, standing_after
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    DELTA_KIND_PROGRESS,
    Delta,
    DeltaFence,
    DeltaRecord,
)

HERE = Standing(history=1, lsn=Lsn(20), moment_us=5)


def net(
    from_lsn: int,
    to_lsn: int,
    moment_us: int = 6,
    history: int = 1,
    kind: int = DELTA_KIND_NET,
    from_moment_us: int = HERE.moment_us,
) -> Delta:
    return Delta(
        from_lsn=from_lsn,
        from_moment_us=from_moment_us,
        to_lsn=to_lsn,
        moment_us=moment_us,
        history=history,
        kind=kind,
    )


def full(to_lsn: int, moment_us: int = 6, history: int = 1) -> Delta:
    return net(0, to_lsn, moment_us, history, DELTA_KIND_FULL)


def test_a_delta_that_starts_where_the_reader_stands_is_applied():
    assert judge(HERE, net(20, 30)) is Verdict.APPLY


def test_a_delta_that_the_state_contains_is_dropped():
    assert judge(HERE, net(10, 20, moment_us=5)) is Verdict.DROP


def test_a_gap_asks_for_a_whole_result():
    assert judge(HERE, net(21, 30)) is Verdict.RESYNC


def test_a_delta_that_overlaps_the_state_asks_for_a_whole_result():
    assert judge(HERE, net(15, 30)) is Verdict.RESYNC


def test_a_reader_without_a_state_takes_only_a_whole_result():
    assert [judge(None, net(0, 30)), judge(None, full(30))] == [Verdict.RESYNC, Verdict.APPLY]


def test_a_whole_result_starts_anywhere_but_never_goes_back():
    assert [judge(HERE, full(99)), judge(HERE, full(19)), judge(HERE, full(20, moment_us=5))] == [
        Verdict.APPLY,
        Verdict.DROP,
        Verdict.DROP,
    ]


def test_time_alone_may_move_a_state():
    assert judge(HERE, net(20, 20, moment_us=6)) is Verdict.APPLY


def test_a_lost_move_of_time_alone_asks_for_a_whole_result():
    assert judge(HERE, net(20, 30, moment_us=9, from_moment_us=7)) is Verdict.RESYNC


def test_progress_moves_a_state_that_stands_right_before_it():
    progress = net(20, 30, kind=DELTA_KIND_PROGRESS)
    assert judge(HERE, progress) is Verdict.APPLY
    assert standing_after(progress) == Standing(1, Lsn(30), 6)


def test_an_error_is_taken_from_anywhere_but_not_from_the_past():
    errors = [net(5, to, kind=DELTA_KIND_ERROR) for to in (30, 10)]
    assert [judge(HERE, error) for error in errors] == [Verdict.APPLY, Verdict.DROP]


def test_another_history_is_entered_by_a_whole_result_only():
    assert [judge(HERE, net(20, 30, history=2)), judge(HERE, full(1, history=2))] == [Verdict.RESYNC, Verdict.APPLY]


def test_nothing_of_a_former_history_is_taken():
    later = Standing(history=3, lsn=Lsn(1), moment_us=1)
    assert [judge(later, delta) for delta in (full(99), net(1, 99), net(1, 99, kind=DELTA_KIND_ERROR))] == (
        [Verdict.DROP] * 3
    )


class Worker:
    """Writes true deltas between states of its own choice, as recompute does: tick boundaries are not deterministic."""

    def __init__(self, epoch: int, writer: int, states: list[Counter]) -> None:
        self._epoch, self._writer, self._states = epoch, writer, states
        self.at = 0

    def fence(self) -> DeltaRecord:
        return DeltaRecord(epoch=self._epoch, writer=self._writer, fence=DeltaFence())

    def tick(self, to: int, *, whole: bool) -> DeltaRecord:
        before, after = self._states[self.at], self._states[to]
        rows = dict(after) if whole else {row: after[row] - before[row] for row in before | after}
        delta = Delta(
            from_lsn=self.at,
            from_moment_us=1,
            to_lsn=to,
            moment_us=1,
            history=1,
            kind=DELTA_KIND_FULL if whole else DELTA_KIND_NET,
            rows=encode_block((row, weight) for row, weight in rows.items() if weight),
            state_hash=shifted(EMPTY, after.items()),
        )
        self.at = to
        return DeltaRecord(epoch=self._epoch, writer=self._writer, delta=delta)


class Follower:
    """A reader by the rules; a state that it cannot go on from is no state."""

    def __init__(self) -> None:
        self._partition = PartitionReader()
        self.standing: Standing | None = None
        self.state: Counter = Counter()

    def feed(self, record: DeltaRecord) -> None:
        record = self._partition.feed(record)
        if record is None:
            return
        verdict = judge(self.standing, record.delta)
        if verdict is Verdict.RESYNC:
            self.standing = None
        elif verdict is Verdict.APPLY:
            state = Counter() if record.delta.kind == DELTA_KIND_FULL else self.state
            for row, weight in decode_block(record.delta.rows):
                state[row] += weight
            self.state, self.standing = +state, standing_after(record.delta)
            assert shifted(EMPTY, self.state.items()) == record.delta.state_hash


STATE = st.lists(st.tuples(st.binary(max_size=1)), max_size=4).map(Counter)
TICK = st.tuples(st.sampled_from(["tick", "tick", "zombie", "take over"]), st.integers(1, 3), st.booleans())


@settings(max_examples=300, deadline=None)
@given(st.lists(STATE, min_size=12, max_size=12), st.lists(TICK, max_size=14), st.data())
def test_whatever_is_repeated_dropped_or_fenced_off_a_state_is_never_wrong(states, ticks, data):
    workers, log = [Worker(1, 1, states)], []
    log.append(workers[0].fence())
    for what, step, whole in ticks:
        if what == "take over":
            workers.append(Worker(len(workers) + 1, len(workers) + 1, states))
            workers[-1].at = max(worker.at for worker in workers)
            log.append(workers[-1].fence())
        worker = workers[data.draw(st.integers(0, len(workers) - 1))] if what == "zombie" else workers[-1]
        if worker.at + step < len(states):
            log.append(worker.tick(worker.at + step, whole=whole))
    follower = Follower()
    for record in log:
        for _ in range(data.draw(st.sampled_from([1, 1, 1, 0, 2]))):
            follower.feed(record)
            if follower.standing is not None:
                assert follower.state == +states[follower.standing.lsn]


@given(st.lists(STATE, min_size=6, max_size=6), st.lists(st.booleans(), min_size=5, max_size=5))
def test_the_fold_of_all_deltas_is_the_last_state(states, wholes):
    worker, follower = Worker(1, 1, states), Follower()
    follower.feed(worker.fence())
    for to, whole in enumerate([True, *wholes[1:]], start=1):
        follower.feed(worker.tick(to, whole=whole))
    assert (follower.standing.lsn, follower.state) == (5, +states[5])
