"""Logins take turns, and none has everything (issue 10, G)."""

import pytest

from services.gateway.core.fair_queue import FairQueue, QueueFull


def turns(**limits):
    return FairQueue(**{"at_once": 4, "at_once_a_login": 2, "waiting_a_login": 10, **limits})


def taken(of):
    found = []
    while (turn := of.take()) is not None:
        found.append(turn)
    return found


def test_a_login_has_at_most_its_share_at_once():
    of = turns()
    for number in range(5):
        of.add("hostile", number)
    assert taken(of) == [("hostile", 0), ("hostile", 1)]
    of.add("other", 9)
    assert taken(of) == [("other", 9)]
    of.done("hostile")
    assert taken(of) == [("hostile", 2)]


def test_logins_take_turns_however_many_jobs_one_has():
    of = turns(at_once=1)
    for number in range(3):
        of.add("a", number)
    of.add("b", 0)
    order = []
    while (turn := of.take()) is not None:
        order.append(turn)
        of.done(turn[0])
    assert order == [("a", 0), ("b", 0), ("a", 1), ("a", 2)]


def test_a_queue_has_an_end():
    of = turns(waiting_a_login=2)
    of.add("a", 1)
    of.add("a", 2)
    with pytest.raises(QueueFull):
        of.add("a", 3)
    of.add("b", 1)
