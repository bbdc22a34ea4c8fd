"""Who is subscribed to what."""

from services.registry.core.writes import PutQuery, PutSubscription, batch
from tests.unit.registry.index_commands import (
    SECOND_US,
    Topics,
    new_index,
    pause,
    request,
    resume,
    subscribe,
    unsubscribe,
)


def test_equal_queries_are_one_query_and_other_roles_have_their_own():
    index = new_index()
    for command in (
        subscribe("SELECT  a FROM t"),
        subscribe("select a from t -- same"),
        subscribe("SELECT a FROM t", role="s"),
    ):
        list(index.obey(command, 0))
    assert (index.subscriptions, index.queries) == (3, 2)


def test_a_subscription_is_written_before_its_query():
    writes = list(new_index().obey(subscribe(), 0))
    assert [type(write) for write in writes] == [PutSubscription, PutQuery]
    (wanted,) = writes[1].query.snapshots
    assert wanted.request_id == writes[0].record.accepted.first_request_id == writes[0].subscription_id


def test_the_last_unsubscribe_ends_the_query():
    index, one, other = new_index(), subscribe(), subscribe()
    for command in (one, other):
        list(index.obey(command, 0))
    assert [type(write) for write in index.obey(unsubscribe(one), 0)] == [PutSubscription]
    ended = list(index.obey(unsubscribe(other), 0))
    assert [type(write) for write in ended] == [PutSubscription, PutQuery]
    assert (ended[0].record, ended[1].query, index.queries) == (None, None, 0)


def test_a_repeated_command_is_harmless():
    index, command = new_index(), subscribe()
    subscription, query = index.obey(command, 0)
    once_more, the_same = index.obey(command, 0)
    assert (once_more, the_same.query_id, the_same.query) == (subscription, query.query_id, query.query)
    list(index.obey(unsubscribe(command), 0))
    assert list(index.obey(command, 0)) == []


def test_pause_and_resume_are_told_once_and_outlive_a_restart():
    index, command, topics = new_index(), subscribe(), Topics()
    topics.put(index.obey(command, 0))
    (paused,) = index.obey(pause(command), 0)
    assert paused.record.accepted.paused
    assert list(index.obey(pause(command), 0)) == []
    topics.put([paused])
    after = new_index()
    after.restore(*topics.copies(), 0)
    (resumed,) = after.obey(resume(command), 0)
    assert not resumed.record.accepted.paused
    assert list(after.obey(pause(subscribe()), 0)) == []


def test_a_whole_result_is_asked_for_beside_the_first_ones_and_for_ten_minutes():
    index, command = new_index(), subscribe()
    (_, put) = index.obey(command, 0)
    (asked,) = index.obey(request(put.query_id), SECOND_US)
    assert [one.request_id for one in asked.query.snapshots] == [command.subscribe.subscription_id, b"whole"]
    (later,) = index.obey(request(put.query_id, b"later"), 601 * SECOND_US)
    assert [one.request_id for one in later.query.snapshots] == [b"later"]
    assert list(index.obey(request(b"unknown"), 0)) == []


def test_a_batch_has_every_subscription_and_each_query_once():
    index = new_index()
    commands = [subscribe(f"SELECT a FROM t WHERE b = {number % 2}", owner=str(number)) for number in range(10)]
    together = batch(write for command in commands for write in index.obey(command, 0))
    assert [put.subscription_id for put in together.subscriptions] == [
        command.subscribe.subscription_id for command in commands
    ]
    assert [len(put.query.snapshots) for put in together.queries] == [5, 5]
    assert len({put.query.template_id for put in together.queries}) == 1


def test_a_query_that_came_and_went_in_one_batch_is_ended():
    index, command = new_index(), subscribe()
    together = batch(write for one in (command, unsubscribe(command)) for write in index.obey(one, 0))
    assert [put.query for put in together.queries] == [None]


def test_a_restart_restores_subscriptions_and_open_requests():
    before, commands, topics = new_index(), [subscribe(), subscribe("SELECT 2")], Topics()
    for command in commands:
        topics.put(before.obey(command, 0))
    after = new_index()
    assert after.restore(*topics.copies(), 0) == []
    assert (after.subscriptions, after.queries) == (2, 2)
    held = dict(topics.queries)
    for command in commands:
        topics.put(after.obey(command, 0))
    assert topics.queries == held


def test_what_a_crash_left_half_done_is_cleared_away():
    (put, asked) = new_index().obey(subscribe(), 0)
    assert new_index().restore({}, {put.key: put.record}, 0) == [
        PutSubscription(put.query_id, put.subscription_id, None)
    ]
    assert new_index().restore({asked.query_id: asked.query}, {}, 0) == [PutQuery(asked.query_id, None)]


def test_a_refusal_that_a_crash_left_is_cleared_away_under_its_own_key():
    index = new_index(owner=1)
    list(index.obey(subscribe(), 0))
    refused, _ = index.obey(subscribe("SELECT 2"), 0)
    assert new_index().restore({}, {refused.key: refused.record}, 0) == [
        PutSubscription(refused.query_id, refused.subscription_id, None)
    ]


def test_late_writes_of_an_earlier_registry_are_repaired():
    index, topics = new_index(), Topics()
    kept, ended, lost = subscribe(), subscribe("SELECT 2"), subscribe("SELECT 3")
    topics.put(write for command in (kept, ended, lost) for write in index.obey(command, 0))
    held = topics.copies()
    assert list(index.repairs(*held, 0)) == []
    late = topics.copies()
    topics.put(index.obey(unsubscribe(ended), 0))
    # The ended one comes back, the lost one goes.
    stale = Topics()
    stale.queries, stale.records = late
    stale.put(new_index_with(stale).obey(unsubscribe(lost), 0))
    stale.put(index.repairs(*stale.copies(), 0))
    assert (stale.queries, stale.records) == (topics.queries, topics.records)


def new_index_with(topics):
    index = new_index()
    index.restore(*topics.copies(), 0)
    return index
