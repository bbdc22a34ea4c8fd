"""Who is subscribed to what."""

from services.registry.core.writes import PutQuery, PutSubscription, batch
from tests.unit.registry.roster_commands import (
    SECOND_US,
    Topics,
    new_roster,
    pause,
    request,
    resume,
    subscribe,
    unsubscribe,
)


def test_equal_queries_are_one_query_and_other_roles_have_their_own():
    roster = new_roster()
    for command in (
        subscribe("SELECT  a FROM t"),
        subscribe("select a from t -- same"),
        subscribe("SELECT a FROM t", role="s"),
    ):
        list(roster.obey(command, 0))
    assert (roster.subscriptions, roster.queries) == (3, 2)


def test_a_subscription_is_written_before_its_query():
    writes = list(new_roster().obey(subscribe(), 0))
    assert [type(write) for write in writes] == [PutSubscription, PutQuery]
    (wanted,) = writes[1].query.snapshots
    assert wanted.request_id == writes[0].record.accepted.first_request_id == writes[0].subscription_id


def test_the_last_unsubscribe_ends_the_query():
    roster, one, other = new_roster(), subscribe(), subscribe()
    for command in (one, other):
        list(roster.obey(command, 0))
    assert [type(write) for write in roster.obey(unsubscribe(one), 0)] == [PutSubscription]
    ended = list(roster.obey(unsubscribe(other), 0))
    assert [type(write) for write in ended] == [PutSubscription, PutQuery]
    assert (ended[0].record, ended[1].query, roster.queries) == (None, None, 0)


def test_a_repeated_command_is_harmless():
    roster, command = new_roster(), subscribe()
    subscription, query = roster.obey(command, 0)
    once_more, the_same = roster.obey(command, 0)
    assert (once_more, the_same.query_id, the_same.query) == (subscription, query.query_id, query.query)
    list(roster.obey(unsubscribe(command), 0))
    assert list(roster.obey(command, 0)) == []


def test_pause_and_resume_are_told_once_and_outlive_a_restart():
    roster, command, topics = new_roster(), subscribe(), Topics()
    topics.put(roster.obey(command, 0))
    (paused,) = roster.obey(pause(command), 0)
    assert paused.record.accepted.paused
    assert list(roster.obey(pause(command), 0)) == []
    topics.put([paused])
    after = new_roster()
    after.restore(*topics.copies(), 0)
    (resumed,) = after.obey(resume(command), 0)
    assert not resumed.record.accepted.paused
    assert list(after.obey(pause(subscribe()), 0)) == []


def test_a_whole_result_is_asked_for_beside_the_first_ones_and_for_ten_minutes():
    roster, command = new_roster(), subscribe()
    (_, put) = roster.obey(command, 0)
    (asked,) = roster.obey(request(put.query_id), SECOND_US)
    assert [one.request_id for one in asked.query.snapshots] == [command.subscribe.subscription_id, b"whole"]
    (later,) = roster.obey(request(put.query_id, b"later"), 601 * SECOND_US)
    assert [one.request_id for one in later.query.snapshots] == [b"later"]
    assert list(roster.obey(request(b"unknown"), 0)) == []


def test_a_batch_has_every_subscription_and_each_query_once():
    roster = new_roster()
    commands = [subscribe(f"SELECT a FROM t WHERE b = {number % 2}", owner=str(number)) for number in range(10)]
    together = batch(write for command in commands for write in roster.obey(command, 0))
    assert [put.subscription_id for put in together.subscriptions] == [
        command.subscribe.subscription_id for command in commands
    ]
    assert [len(put.query.snapshots) for put in together.queries] == [5, 5]
    assert len({put.query.template_id for put in together.queries}) == 1


def test_a_query_that_came_and_went_in_one_batch_is_ended():
    roster, command = new_roster(), subscribe()
    together = batch(write for one in (command, unsubscribe(command)) for write in roster.obey(one, 0))
    assert [put.query for put in together.queries] == [None]


def test_a_restart_restores_subscriptions_and_open_requests():
    before, commands, topics = new_roster(), [subscribe(), subscribe("SELECT 2")], Topics()
    for command in commands:
        topics.put(before.obey(command, 0))
    after = new_roster()
    assert after.restore(*topics.copies(), 0) == []
    assert (after.subscriptions, after.queries) == (2, 2)
    held = dict(topics.queries)
    for command in commands:
        topics.put(after.obey(command, 0))
    assert topics.queries == held


def test_what_a_crash_left_half_done_is_cleared_away():
    (put, asked) = new_roster().obey(subscribe(), 0)
    assert new_roster().restore({}, {put.key: put.record}, 0) == [
        PutSubscription(put.query_id, put.subscription_id, None)
    ]
    assert new_roster().restore({asked.query_id: asked.query}, {}, 0) == [PutQuery(asked.query_id, None)]


def test_a_refusal_that_a_crash_left_is_cleared_away_under_its_own_key():
    roster = new_roster(owner=1)
    list(roster.obey(subscribe(), 0))
    refused, _ = roster.obey(subscribe("SELECT 2"), 0)
    assert new_roster().restore({}, {refused.key: refused.record}, 0) == [
        PutSubscription(refused.query_id, refused.subscription_id, None)
    ]


def test_what_a_registry_before_wrote_late_is_mended():
    roster, topics = new_roster(), Topics()
    kept, ended, lost = subscribe(), subscribe("SELECT 2"), subscribe("SELECT 3")
    topics.put(write for command in (kept, ended, lost) for write in roster.obey(command, 0))
    held = topics.copies()
    assert list(roster.repairs(*held, 0)) == []
    late = topics.copies()
    topics.put(roster.obey(unsubscribe(ended), 0))
    # The ended one comes back, the lost one goes.
    stale = Topics()
    stale.queries, stale.records = late
    stale.put(new_roster_with(stale).obey(unsubscribe(lost), 0))
    stale.put(roster.repairs(*stale.copies(), 0))
    assert (stale.queries, stale.records) == (topics.queries, topics.records)


def new_roster_with(topics):
    roster = new_roster()
    roster.restore(*topics.copies(), 0)
    return roster
