"""A gateway that dies takes its subscriptions with it."""

from services.registry.core.writes import PutQuery, PutSubscription
from tests.unit.registry.index_commands import SECOND_US, Topics, new_index, renew, subscribe


def test_a_lease_that_is_not_renewed_ends_and_its_gateway_is_told():
    index = new_index()
    list(index.obey(subscribe(), 0))
    list(index.obey(renew(lease_ms=1000), SECOND_US // 2))
    assert list(index.expire(SECOND_US)) == []
    told, ended, gone = index.expire(2 * SECOND_US)
    assert told.record.refused.message == "Subscription ended: its lease was not renewed"
    assert (ended, gone) == (
        PutSubscription(told.query_id, told.subscription_id, None),
        PutQuery(told.query_id, None),
    )
    assert index.subscriptions == 0


def test_a_renewal_is_for_all_subscriptions_of_one_gateway():
    index = new_index()
    for command in (subscribe(), subscribe("SELECT 2"), subscribe(gateway="other")):
        list(index.obey(command, 0))
    assert list(index.obey(renew(), SECOND_US)) == []
    list(index.expire(3 * SECOND_US // 2))
    assert index.subscriptions == 2


def test_a_renewal_that_does_not_say_how_long_adds_what_was_granted():
    index = new_index()
    for command in (subscribe(lease_ms=1000), subscribe("SELECT 2", lease_ms=5000)):
        list(index.obey(command, 0))
    list(index.obey(renew(), SECOND_US))
    list(index.expire(4 * SECOND_US))
    assert index.subscriptions == 1
    list(index.expire(7 * SECOND_US))
    assert index.subscriptions == 0


def test_a_restart_gives_every_lease_one_full_period():
    before, topics = new_index(), Topics()
    topics.put(before.obey(subscribe(), 0))
    after = new_index()
    after.restore(*topics.copies(), 100 * SECOND_US)
    assert list(after.expire(101 * SECOND_US)) == []
    assert len(list(after.expire(102 * SECOND_US))) == 3


def test_no_lease_ends_for_time_in_which_the_registry_was_stalled():
    index = new_index(stall_us=3 * SECOND_US)
    list(index.obey(subscribe(), 0))
    assert list(index.expire(SECOND_US)) == []
    assert list(index.expire(60 * SECOND_US)) == []
    assert len(list(index.expire(62 * SECOND_US))) == 3


def test_no_lease_ends_for_time_in_which_commands_could_not_be_read():
    index = new_index()
    list(index.obey(subscribe(), 0))
    index.renew_all(10 * SECOND_US)
    assert list(index.expire(11 * SECOND_US)) == []
