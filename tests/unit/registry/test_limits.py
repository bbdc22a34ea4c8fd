"""V55–V58: how many subscriptions, and how fast."""

import pytest

from services.registry.core.limits import Bucket
from services.registry.errors import RateLimited
from tests.unit.registry.roster_commands import SECOND_US, Topics, new_roster, pause, subscribe, unsubscribe


def refusal(roster, command):
    """The words of a refusal, which leaves nothing behind."""
    refused, forgotten = roster.obey(command, 0)
    assert (refused.key, forgotten.record) == (forgotten.key, None)
    return refused.record.refused.message


def test_limits_are_refused_in_the_words_of_v56():
    roster = new_roster(owner=1, everyone=2)
    list(roster.obey(subscribe(), 0))
    assert refusal(roster, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"
    list(roster.obey(subscribe(owner="d"), 0))
    assert refusal(roster, subscribe(owner="e")) == "Global limit exceeded: 2 subscriptions (max: 2)"


def test_paused_ones_count_and_ended_ones_do_not():
    roster, one = new_roster(owner=1), subscribe()
    for command in (one, pause(one)):
        list(roster.obey(command, 0))
    assert refusal(roster, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"
    list(roster.obey(unsubscribe(one), 0))
    list(roster.obey(subscribe(), 0))
    assert roster.subscriptions == 1


def test_restored_ones_count():
    roster, topics = new_roster(), Topics()
    topics.put(roster.obey(subscribe(), 0))
    after = new_roster(owner=1)
    after.restore(*topics.copies(), 0)
    assert refusal(after, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"


def test_ten_a_second_is_the_rate_of_each_connection():
    roster = new_roster(per_s=10)
    for _ in range(10):
        list(roster.obey(subscribe(at_us=0), 0))
    assert refusal(roster, subscribe(at_us=40_000)) == "Rate limited: retry after 60ms"
    list(roster.obey(subscribe(owner="d", at_us=40_000), 0))
    list(roster.obey(subscribe(at_us=100_000), 0))
    assert roster.subscriptions == 12


def test_a_backlog_is_no_offence():
    roster = new_roster(per_s=10)
    for number in range(50):
        list(roster.obey(subscribe(at_us=number * 100_000), 60 * SECOND_US))
    assert roster.subscriptions == 50


def test_a_clock_that_steps_back_gives_nothing_and_takes_nothing():
    bucket = Bucket(2, 10 * SECOND_US)
    bucket.take(10 * SECOND_US)
    bucket.take(9 * SECOND_US)
    with pytest.raises(RateLimited, match="Rate limited: retry after 500ms"):
        bucket.take(9 * SECOND_US)
    bucket.take(10 * SECOND_US + SECOND_US // 2)


def test_whatever_comes_at_most_ten_times_in_any_second_is_let_through():
    bucket = Bucket(10, 0)
    for second in range(5):
        for _ in range(10):
            bucket.take(second * SECOND_US)
