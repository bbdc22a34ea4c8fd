"""Where an answer of PostgreSQL stands among the commits of the log."""

from hypothesis import given
from hypothesis import strategies as st

from proto.positions import Lsn, Xid
from services.changelog.snapshot import Snapshot
from services.recompute.core.log_placement import Concern, place
from services.recompute.core.result import Position


def concern(xid: int, *, resets: bool = False) -> Concern:
    return Concern(before=Position(Lsn(xid - 1), 0), position=Position(Lsn(xid), xid), xid=Xid(xid), resets=resets)


def test_the_position_of_an_answer_is_behind_the_commits_that_it_contains():
    snapshot = Snapshot(xmin=12, xmax=12, in_progress=frozenset())
    assert place([concern(10), concern(11), concern(12)], snapshot) == 2


def test_an_answer_with_a_later_commit_but_not_an_earlier_one_has_no_position():
    snapshot = Snapshot(xmin=10, xmax=12, in_progress=frozenset({10}))
    assert place([concern(10), concern(11)], snapshot) is None
    assert place([concern(11), concern(10)], snapshot) == 1


def test_a_truncate_that_the_snapshot_does_not_see_may_have_shown_all_the_same():
    snapshot = Snapshot(xmin=11, xmax=11, in_progress=frozenset())
    assert place([concern(10, resets=True), concern(11)], snapshot) == 1
    assert place([concern(10), concern(11, resets=True)], snapshot) is None


def test_an_answer_that_no_commit_concerns_is_at_the_end_of_the_log():
    assert place([], Snapshot(xmin=3, xmax=3, in_progress=frozenset())) == 0


@given(st.data())
def test_an_answer_with_a_position_is_the_state_at_that_position(data: st.DataObject):
    """A table of one value for each key: the answer is what the snapshot sees, the state what the log says."""
    xids = data.draw(st.permutations(range(100, 110)))
    writes = {xid: data.draw(st.integers(0, 2)) for xid in xids}
    # Visible are all that committed before a moment, save those that still wait for a standby.
    ended = data.draw(st.integers(0, 10))
    waiting = set(data.draw(st.lists(st.sampled_from(xids), max_size=2)))
    visible = [xid for xid in xids[:ended] if xid not in waiting]
    unseen = frozenset(xids) - set(visible)
    snapshot = Snapshot(xmin=min(unseen, default=110), xmax=110, in_progress=unseen)
    concerns = [concern(xid) for xid in xids]
    contained = place(concerns, snapshot)
    states = [folded(xids[:at], writes) for at in range(len(xids) + 1)]
    if contained is None:
        assert visible != xids[: len(visible)]
    else:
        assert states[contained] == folded(visible, writes)


def folded(xids: list[int], writes: dict[int, int]) -> dict[int, list[int]]:
    state: dict[int, list[int]] = {}
    for xid in xids:
        state.setdefault(writes[xid], []).append(xid)
    return state
