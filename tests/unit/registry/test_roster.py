"""Who is subscribed to what."""

from uuid import uuid4

from proto.tidewire.v1.commands_pb2 import Command, Owner, Renew, Subscribe, Unsubscribe
from services.registry.core.roster import PutQuery, PutSubscription, Roster

SECOND_US = 1_000_000


def subscribe(sql="SELECT 1", owner="c", role="r", subscription=None):
    body = Subscribe(
        subscription_id=subscription or uuid4().bytes,
        sql=sql,
        owner=Owner(role=role, connection_id=owner),
        lease_ms=1000,
    )
    return Command(command_id=uuid4().bytes, gateway_id="g", subscribe=body)


def unsubscribe(command):
    body = Unsubscribe(subscription_id=command.subscribe.subscription_id)
    return Command(command_id=uuid4().bytes, gateway_id="g", unsubscribe=body)


def new_roster(**limits):
    return Roster(**{"owner_limit": 100, "global_limit": 1000, **limits})


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
    first = list(roster.obey(command, 0))
    assert list(roster.obey(command, 0)) == first
    list(roster.obey(unsubscribe(command), 0))
    assert list(roster.obey(command, 0)) == []


def test_limits_are_refused_in_the_words_of_v56_and_leave_nothing():
    roster = new_roster(owner_limit=1, global_limit=2)
    list(roster.obey(subscribe(), 0))
    refused, forgotten = roster.obey(subscribe(), 0)
    assert refused.record.refused.message == "Connection limit exceeded: 1 subscriptions (max: 1)"
    assert forgotten.record is None
    list(roster.obey(subscribe(owner="d"), 0))
    refused, _ = roster.obey(subscribe(owner="e"), 0)
    assert refused.record.refused.message == "Global limit exceeded: 2 subscriptions (max: 2)"


def test_a_lease_that_is_not_renewed_ends():
    roster = new_roster()
    list(roster.obey(subscribe(), 0))
    list(roster.obey(Command(command_id=b"x", gateway_id="g", renew=Renew(lease_ms=1000)), SECOND_US // 2))
    assert list(roster.expire(SECOND_US)) == []
    assert len(list(roster.expire(2 * SECOND_US))) == 2
    assert roster.subscriptions == 0


def test_a_restart_restores_subscriptions_and_open_requests():
    before, commands = new_roster(), [subscribe(), subscribe("SELECT 2")]
    writes = [write for command in commands for write in before.obey(command, 0)]
    queries = [write.query for write in writes if isinstance(write, PutQuery)]
    records = [write.record for write in writes if isinstance(write, PutSubscription)]
    after = new_roster()
    assert after.restore(queries, records, 0) == []
    assert (after.subscriptions, after.queries) == (2, 2)
    (again,) = [write for write in after.obey(commands[0], 0) if isinstance(write, PutQuery)]
    assert again.query == queries[0]


def test_what_a_crash_left_half_done_is_cleared_away():
    (put, _) = new_roster().obey(subscribe(), 0)
    (orphan,) = new_roster().restore([], [put.record], 0)
    assert (orphan.subscription_id, orphan.record) == (put.subscription_id, None)
