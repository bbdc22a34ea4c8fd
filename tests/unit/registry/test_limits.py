"""V55–V58: how many subscriptions, and how fast."""

import pytest

from services.registry.core.limits import Bucket
from services.registry.errors import RateLimited
from tests.unit.registry.index_commands import SECOND_US, Topics, new_index, pause, subscribe, unsubscribe


def refusal(index, command):
    """The words of a refusal, which leaves nothing behind."""
    refused, forgotten = index.obey(command, 0)
    assert (refused.key, forgotten.record) == (forgotten.key, None)
    return refused.record.refused.message


def test_limits_are_refused_in_the_words_of_v56():
    index = new_index(owner=1, everyone=2)
    list(index.obey(subscribe(), 0))
    assert refusal(index, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"
    list(index.obey(subscribe(owner="d"), 0))
    assert refusal(index, subscribe(owner="e")) == "Global limit exceeded: 2 subscriptions (max: 2)"


def test_paused_ones_count_and_ended_ones_do_not():
    index, one = new_index(owner=1), subscribe()
    for command in (one, pause(one)):
        list(index.obey(command, 0))
    assert refusal(index, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"
    list(index.obey(unsubscribe(one), 0))
    list(index.obey(subscribe(), 0))
    assert index.subscriptions == 1


def test_restored_ones_count():
    index, topics = new_index(), Topics()
    topics.put(index.obey(subscribe(), 0))
    after = new_index(owner=1)
    after.restore(*topics.copies(), 0)
    assert refusal(after, subscribe()) == "Connection limit exceeded: 1 subscriptions (max: 1)"


def test_ten_a_second_is_the_rate_of_each_connection():
    index = new_index(per_s=10)
    for _ in range(10):
        list(index.obey(subscribe(at_us=0), 0))
    assert refusal(index, subscribe(at_us=40_000)) == "Rate limited: retry after 60ms"
    list(index.obey(subscribe(owner="d", at_us=40_000), 0))
    list(index.obey(subscribe(at_us=100_000), 0))
    assert index.subscriptions == 12


def test_a_backlog_of_commands_is_not_rate_limited():
    index = new_index(per_s=10)
    for number in range(50):
        list(index.obey(subscribe(at_us=number * 100_000), 60 * SECOND_US))
    assert index.subscriptions == 50


def test_a_clock_that_steps_back_gives_nothing_and_takes_nothing():
    bucket = Bucket(2, 10 * SECOND_US)
    bucket.take(10 * SECOND_US)
    bucket.take(9 * SECOND_US)
    with pytest.raises(RateLimited, match="Rate limited: retry after 500ms"):
        bucket.take(9 * SECOND_US)
    bucket.take(10 * SECOND_US + SECOND_US // 2)


def test_whatever_comes_at_most_ten_times_in_any_second_is_let_through():
    bucket, taken = Bucket(10, 0), 0
    for second in range(5):
        for _ in range(10):
            bucket.take(second * SECOND_US)
            taken += 1
        with pytest.raises(RateLimited):
            bucket.take(second * SECOND_US)
    assert taken == 50


def test_the_connections_of_one_login_cannot_use_up_what_is_there_for_all_whatever_roles_it_sets():
    index, topics = new_index(owner=1, everyone=4, login=2), Topics()
    for connection in ("a", "b"):
        topics.put(index.obey(subscribe(owner=connection, login="greedy", role=f"role_{connection}"), 0))
    after = new_index(owner=1, everyone=4, login=2)
    after.restore(*topics.copies(), 0)
    for one in (index, after):
        third = subscribe(owner="c", login="greedy", role="role_c")
        assert refusal(one, third) == "Login limit exceeded: 2 subscriptions (max: 2)"
        list(one.obey(subscribe(owner="d", login="modest", role="role_a"), 0))
        assert one.subscriptions == 3


def test_what_a_login_has_ended_is_free_again():
    index, one = new_index(login=1), subscribe(login="greedy", role="r1")
    for command in (one, unsubscribe(one), subscribe(login="greedy", role="r2")):
        list(index.obey(command, 0))
    assert index.subscriptions == 1


def test_a_statement_that_no_record_can_hold_is_refused_in_a_sentence():
    index = new_index()
    assert refusal(index, subscribe(sql="SELECT '" + "x" * 10_000 + "'")) == (
        "Statement too large: 10009 bytes (max: 10000)"
    )
    assert index.queries == 0


def test_a_subscription_whose_settings_no_record_can_hold_is_refused_in_a_sentence():
    command = subscribe()
    command.subscribe.settings_read["app.note"] = "x" * 20_000
    assert refusal(new_index(), command).startswith("Subscription too large: ")


def test_a_text_is_written_once():
    index, topics = new_index(), Topics()
    topics.put(index.obey(subscribe(sql="SELECT 'a text that stands out'"), 0))
    (query,) = topics.queries.values()
    assert query.SerializeToString().count(b"stands out") == 1


@pytest.mark.parametrize("opening", ["date(", "(", "array["])
def test_nested_brackets_are_read_in_no_time(opening):
    closing = "]" if opening == "array[" else ")"
    sql = f"SELECT a FROM t WHERE a = 7 AND b = {opening * 60}b{closing * 60}"
    index = new_index()
    list(index.obey(subscribe(sql=sql), 0))
    assert index.queries == 1
