"""A gateway that dies takes its subscriptions with it."""

from services.registry.core.writes import PutQuery, PutSubscription
from tests.unit.registry.roster_commands import SECOND_US, Topics, new_roster, renew, subscribe


def test_a_lease_that_is_not_renewed_ends_and_its_gateway_is_told():
    roster = new_roster()
    list(roster.obey(subscribe(), 0))
    list(roster.obey(renew(lease_ms=1000), SECOND_US // 2))
    assert list(roster.expire(SECOND_US)) == []
    told, ended, gone = roster.expire(2 * SECOND_US)
    assert told.record.refused.message == "Subscription ended: its lease was not renewed"
    assert (ended, gone) == (
        PutSubscription(told.query_id, told.subscription_id, None),
        PutQuery(told.query_id, None),
    )
    assert roster.subscriptions == 0


def test_a_renewal_is_for_all_subscriptions_of_one_gateway():
    roster = new_roster()
    for command in (subscribe(), subscribe("SELECT 2"), subscribe(gateway="other")):
        list(roster.obey(command, 0))
    assert list(roster.obey(renew(), SECOND_US)) == []
    list(roster.expire(3 * SECOND_US // 2))
    assert roster.subscriptions == 2


def test_a_renewal_that_does_not_say_how_long_adds_what_was_granted():
    roster = new_roster()
    for command in (subscribe(lease_ms=1000), subscribe("SELECT 2", lease_ms=5000)):
        list(roster.obey(command, 0))
    list(roster.obey(renew(), SECOND_US))
    list(roster.expire(4 * SECOND_US))
    assert roster.subscriptions == 1
    list(roster.expire(7 * SECOND_US))
    assert roster.subscriptions == 0


def test_a_restart_gives_every_lease_one_full_period():
    before, topics = new_roster(), Topics()
    topics.put(before.obey(subscribe(), 0))
    after = new_roster()
    after.restore(*topics.copies(), 100 * SECOND_US)
    assert list(after.expire(101 * SECOND_US)) == []
    assert len(list(after.expire(102 * SECOND_US))) == 3


def test_time_that_the_registry_slept_through_counts_for_nobody():
    roster = new_roster(stall_us=3 * SECOND_US)
    list(roster.obey(subscribe(), 0))
    assert list(roster.expire(SECOND_US)) == []
    assert list(roster.expire(60 * SECOND_US)) == []
    assert len(list(roster.expire(62 * SECOND_US))) == 3


def test_time_in_which_nobody_could_be_heard_counts_for_nobody():
    roster = new_roster()
    list(roster.obey(subscribe(), 0))
    roster.renew_all(10 * SECOND_US)
    assert list(roster.expire(11 * SECOND_US)) == []
