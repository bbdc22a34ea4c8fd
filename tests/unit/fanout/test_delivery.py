"""Who gets a record."""

from uuid import uuid4

from proto.tidewire.v1.deltas_pb2 import Delta, DeltaRecord, Snapshot
from proto.tidewire.v1.subscriptions_pb2 import Refusal, Subscription, SubscriptionRecord
from services.fanout.core.delivery import Interest

QUERY, OTHER = bytes(16), bytes(range(16))


def key(query_id=QUERY):
    return query_id + uuid4().bytes


def wanted(gateway_id, partition, **fields):
    return SubscriptionRecord(
        gateway_id=gateway_id, delivery_partition=partition, accepted=Subscription(query_id=QUERY, **fields)
    )


def delta(query_id=QUERY):
    return DeltaRecord(epoch=1, writer=2, delta=Delta(query_id=query_id, to_lsn=5))


def routed(interest, record):
    return sorted((one.partition, one.delivery.gateway_id) for one in interest.route(record))


def test_a_delta_goes_once_to_each_gateway_that_has_subscribers():
    interest = Interest()
    for gateway_id, partition in (("a", 1), ("a", 1), ("b", 2)):
        interest.put(key(), wanted(gateway_id, partition))
    assert routed(interest, delta()) == [(1, "a"), (2, "b")]
    assert routed(interest, delta(OTHER)) == []


def test_a_gateway_is_told_until_its_last_subscription_ends():
    interest, keys = Interest(), [key(), key()]
    for one in keys:
        interest.put(one, wanted("a", 1))
    interest.put(keys[0], wanted("a", 1, paused=True))
    interest.put(keys[0], None)
    assert routed(interest, delta()) == [(1, "a")]
    interest.put(keys[1], None)
    interest.put(keys[1], None)
    assert routed(interest, delta()) == []


def test_two_gateways_may_share_a_partition():
    interest = Interest()
    interest.put(key(), wanted("a", 1))
    interest.put(key(), wanted("b", 1))
    assert routed(interest, delta()) == [(1, "a"), (1, "b")]


def test_a_subscription_that_moved_to_another_gateway_is_told_there():
    interest, one = Interest(), key()
    interest.put(one, wanted("a", 1))
    interest.put(one, wanted("b", 3))
    assert routed(interest, delta()) == [(3, "b")]


def test_a_snapshot_goes_to_who_asked_and_nobody_else():
    interest = Interest()
    interest.put(key(), wanted("a", 1))
    snapshot = Snapshot(request_id=bytes(16), gateway_id="b", delivery_partition=7, result=Delta(query_id=QUERY))
    assert routed(interest, DeltaRecord(snapshot=snapshot)) == [(7, "b")]


def test_a_refusal_is_handed_on_and_forgotten():
    interest, one = Interest(), key()
    record = SubscriptionRecord(gateway_id="a", delivery_partition=4, refused=Refusal(message="no"))
    addressed = interest.put(one, record)
    assert (addressed.partition, addressed.delivery.subscription.refused.message) == (4, "no")
    assert interest.put(one, None) is None
    assert routed(interest, delta()) == []
