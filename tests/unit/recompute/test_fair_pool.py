"""One login's backlog delays its own tasks alone."""

import threading

import pytest

from services.recompute.flow.fair_pool import FairPool

PATIENCE_S = 30


@pytest.fixture
def pool():
    made = FairPool(3, login_threads=2, name="test")
    yield made
    made.close()


def test_a_login_that_fills_its_threads_leaves_one_to_the_others(pool):
    gate = threading.Event()
    stuck = [pool.submit("hostile", lambda: gate.wait(PATIENCE_S)) for _ in range(100)]
    assert [pool.submit("other", lambda: "done").result(PATIENCE_S) for _ in range(5)] == ["done"] * 5
    assert not any(one.done() for one in stuck)
    gate.set()
    assert all(one.result(PATIENCE_S) for one in stuck)


def test_logins_take_turns(pool):
    gate, order = threading.Event(), []
    for login in ("x", "x", "y"):
        pool.submit(login, lambda: gate.wait(PATIENCE_S))
    first = [pool.submit("a", lambda: order.append("a")) for _ in range(20)]
    later = [pool.submit("b", lambda: order.append("b")) for _ in range(3)]
    gate.set()
    for one in (*first, *later):
        one.result(PATIENCE_S)
    assert "b" in order[:5], order


def test_what_may_have_lost_its_rights_comes_before_the_rest_of_its_login(pool):
    gate, order = threading.Event(), []
    running = [pool.submit("a", lambda: gate.wait(PATIENCE_S)) for _ in range(2)]
    waiting = [pool.submit("a", lambda at=at: order.append(at)) for at in range(10)]
    urgent = pool.submit("a", lambda: order.append("urgent"), first=True)
    gate.set()
    for one in (*running, *waiting, urgent):
        one.result(PATIENCE_S)
    assert "urgent" in order[:2], order


def test_an_error_belongs_to_who_asked_and_the_thread_goes_on(pool):
    def deep():
        return deep()

    assert isinstance(pool.submit("a", deep).exception(PATIENCE_S), RecursionError)
    assert pool.submit("a", lambda: 7).result(PATIENCE_S) == 7
    assert pool.is_whole
