"""Claims of a group: never two live ones over one offset, and what is acked has no gap (decisions 11 and 12)."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.topics.claims import (
    Bounds,
    Claim,
    GroupState,
    ack_claim,
    ack_upto,
    give_back,
    has_more,
    reset,
    take,
)


def taken(state: GroupState, limit: int, now_ms: int = 0, end: int = 280) -> tuple[GroupState, Claim | None]:
    return take(state, Bounds(0, end), now_ms=now_ms, limit=limit, visible_ms=60_000, nonce="n")


def ranges(*claims: Claim | None) -> list[tuple[int, int]]:
    return [(claim.first, claim.last) for claim in claims if claim is not None]


def test_k25_an_expired_range_comes_again_beside_live_claims() -> None:
    """Vector k.expired.split."""
    state, first = taken(GroupState(generation=0, anchor=0), 160)
    state, second = taken(state, 120, now_ms=30_000)
    state, third = taken(state, 120, now_ms=60_001)
    state, fourth = taken(state, 120, now_ms=60_001)
    assert ranges(first, second, third, fourth) == [(0, 159), (160, 279), (0, 119), (120, 159)]


def test_a_claim_at_the_end_reserves_nothing() -> None:
    state, claim = taken(GroupState(generation=0, anchor=0), 10, end=0)
    assert claim is None and state.claims == ()


def test_an_ack_with_a_claim_retires_that_range_only() -> None:
    state, low = taken(GroupState(generation=0, anchor=0), 10)
    state, high = taken(state, 10)
    assert low is not None and high is not None
    done = ack_claim(state, high.claim_id, 19, 0)
    assert done is not None and done[0].acked is None and done[0].retired == ((10, 19),)
    state, again = taken(done[0], 100, now_ms=60_001)
    assert ranges(again) == [(0, 9)]
    done = ack_claim(state, low.claim_id, 9, 0)
    assert done is not None and done[0].acked == 19 and done[0].retired == ()


def test_k24_a_lower_ack_changes_nothing() -> None:
    state = ack_upto(GroupState(generation=0, anchor=0), 399)
    assert ack_upto(state, 199) == state and state.acked == 399


def test_an_ack_of_another_generation_or_of_nonsense_is_none() -> None:
    state, claim = taken(GroupState(generation=0, anchor=0), 10)
    assert claim is not None
    assert ack_claim(reset(state, 0), claim.claim_id, 9, 0) is None
    for nonsense in ("", "1.2.3", "a.b.c.d", "0.5.2.x", "0.0.99999999999999999999.x"):
        assert ack_claim(state, nonsense, 9, 0) is None


def test_what_retention_ended_leaves_no_gap() -> None:
    state, claim = take(GroupState(generation=0, anchor=0), Bounds(50, 60), now_ms=0, limit=5, visible_ms=1, nonce="n")
    assert claim is not None and claim.first == 50
    done = ack_claim(state, claim.claim_id, 54, 50)
    assert done is not None and done[0].acked == 54


def test_a_refused_message_comes_again_at_once() -> None:
    state, _ = taken(GroupState(generation=0, anchor=0), 10)
    state, again = taken(give_back(state, 4), 10)
    assert ranges(again) == [(4, 4)]


Step = st.tuples(st.sampled_from(["take", "ack", "cumulative", "back"]), st.integers(1, 8), st.integers(0, 20_000))


@given(st.lists(Step, max_size=60))
def test_nothing_is_lost_and_no_live_claims_overlap(steps: list[tuple[str, int, int]]) -> None:
    """Whatever consumers do: every offset is retired, held, or free; progress never falls."""
    state, now_ms, bounds, held, retired = (
        GroupState(generation=0, anchor=0),
        0,
        Bounds(0, 40),
        list[Claim](),
        set[int](),
    )
    for what, number, passed in steps:
        now_ms += passed
        before = state.progress
        if what == "take":
            state, claim = take(state, bounds, now_ms=now_ms, limit=number, visible_ms=60_000, nonce=str(now_ms))
            held += [] if claim is None else [claim]
            if claim is not None:
                assert not retired & set(range(claim.first, claim.last + 1))
        elif what == "ack" and held:
            claim = held.pop(number % len(held))
            done = ack_claim(state, claim.claim_id, claim.last, 0)
            assert done is not None
            state = done[0]
            retired |= set(range(claim.first, claim.last + 1))
        elif what == "cumulative":
            state = ack_upto(state, number)
            retired |= set(range(number + 1))
        elif what == "back":
            state = give_back(state, number)
        live = sorted((claim.first, claim.last) for claim in state.claims if claim.until_ms > now_ms)
        assert all(one[1] < two[0] for one, two in itertools.pairwise(live))
        assert state.progress >= before
        known = set(range(state.next)) | {each for first, last in state.retired for each in range(first, last + 1)}
        assert known == retired
        covered = {each for first, last in live for each in range(first, last + 1)}
        assert has_more(state, bounds, now_ms) == bool(set(range(40)) - retired - covered)
