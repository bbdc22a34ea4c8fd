"""Whose turn it is to be run by PostgreSQL."""

from hypothesis import given
from hypothesis import strategies as st

from services.recompute.core.budget import Budget, Due, Turns

TWO = Budget(concurrency=2, min_interval_s=0.2, query_share=0.25, role_share=0.5)


def test_a_query_requested_twice_runs_once():
    turns = Turns(TWO)
    turns.ask(b"a", "me")
    turns.ask(b"a", "me")
    assert [turns.begin(0.0), turns.begin(0.0)] == [Due(b"a", "me"), None]


def test_a_query_asked_for_while_it_runs_is_run_again_after_its_rest():
    turns = Turns(TWO)
    turns.ask(b"a", "me")
    turns.begin(0.0)
    turns.ask(b"a", "me")
    assert turns.begin(0.0) is None
    turns.end(b"a", cost_s=0.01, now_s=1.0)
    assert (turns.begin(1.1), turns.wait_s(1.1), turns.begin(1.2)) == (None, 1.2 - 1.1, Due(b"a", "me"))


def test_a_slow_query_rests_as_long_as_its_share_demands():
    assert (TWO.pause_s(0.01), TWO.pause_s(4.0)) == (0.2, 12.0)


def test_one_login_does_not_get_all_connections():
    turns = Turns(TWO)
    for query_id in (b"a", b"b", b"c"):
        turns.ask(query_id, "greedy")
    turns.ask(b"z", "modest")
    assert [turns.begin(0.0), turns.begin(0.0), turns.begin(0.0)] == [Due(b"a", "greedy"), Due(b"z", "modest"), None]


def test_logins_take_turns():
    turns = Turns(Budget(concurrency=1, min_interval_s=0.0))
    for query_id in (b"a", b"b", b"c"):
        turns.ask(query_id, "greedy")
    turns.ask(b"y", "modest")
    turns.ask(b"z", "modest")
    order = []
    while (due := turns.begin(0.0)) is not None:
        order.append(due.query_id)
        turns.end(due.query_id, 0.0, 0.0)
    assert order == [b"a", b"y", b"b", b"z", b"c"]


def test_what_is_forgotten_is_not_run():
    turns = Turns(TWO)
    turns.ask(b"a", "me")
    turns.forget(b"a")
    assert (turns.begin(0.0), turns.wait_s(0.0)) == (None, None)


@given(
    costs=st.lists(st.floats(0.001, 5.0), min_size=1, max_size=6),
    logins=st.lists(st.sampled_from("xyz"), min_size=6, max_size=6),
    concurrency=st.integers(1, 3),
)
def test_nobody_starves_and_nobody_takes_more_than_his_share(costs: list[float], logins: list[str], concurrency: int):
    budget = Budget(concurrency=concurrency, query_share=0.25)
    turns = Turns(budget)
    running: list[tuple[float, bytes]] = []
    ran: dict[bytes, int] = {}
    busy: dict[bytes, float] = {}
    now_s = 0.0
    while now_s < 200.0:
        # Each is wanted all the time.
        for number in range(len(costs)):
            turns.ask(bytes([number]), logins[number])
        while (due := turns.begin(now_s)) is not None:
            assert len(running) < concurrency
            running.append((now_s + costs[due.query_id[0]], due.query_id))
        wait_s = turns.wait_s(now_s)
        assert wait_s is None or wait_s > 0, "whoever waits for a turn would look again without a pause"
        steps = [end_s for end_s, _ in running] + ([] if wait_s is None else [now_s + wait_s])
        now_s = min(steps)
        for ended in sorted(one for one in running if one[0] <= now_s):
            running.remove(ended)
            cost_s = costs[ended[1][0]]
            turns.end(ended[1], cost_s, now_s)
            ran[ended[1]] = ran.get(ended[1], 0) + 1
            busy[ended[1]] = busy.get(ended[1], 0.0) + cost_s
    assert len(ran) == len(costs)
    # A cycle is at worst one run of everybody and a rest.
    slowest_s = sum(costs) + max(budget.pause_s(cost) for cost in costs)
    assert min(ran.values()) >= int(200.0 / slowest_s) - 1
    assert all(busy[query_id] <= 0.25 * 200.0 + costs[query_id[0]] + 0.001 for query_id in ran)
