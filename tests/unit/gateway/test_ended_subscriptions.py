"""What the registry's refusals mean for a subscription: decisions 4 and 5."""

from uuid import uuid4

from proto.tidewire.v1.subscriptions_pb2 import Refusal, SubscriptionRecord
from services.gateway.core.delivery.effects import EndSubscription
from tests.property.delivery_model import NO_SUBSCRIPTION, Refused
from tests.unit.gateway.delivery_harness import Exchange


def refusal(subscription, message):
    return SubscriptionRecord(subscription_id=subscription.bytes, gateway_id="g", refused=Refusal(message=message))


def test_a_subscription_that_the_registry_did_not_take_never_had_an_id():
    exchange = Exchange()
    one = exchange.expect()
    exchange.perform(exchange.subscriptions.refuse(refusal(one, "Rate limited: retry after 5ms")))
    assert exchange.told(NO_SUBSCRIPTION) == [Refused(NO_SUBSCRIPTION, "Rate limited: retry after 5ms")]
    assert len(exchange.subscriptions) == 0


def test_a_subscription_that_the_registry_ended_is_named_once():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.perform(exchange.subscriptions.refuse(refusal(one, "ended")))
    exchange.perform(exchange.subscriptions.refuse(refusal(one, "ended")))
    assert exchange.told(one) == [Refused(one, "ended")]


def test_a_first_result_for_a_subscription_that_is_over_ends_it_again():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.subscriptions.remove(one, "c")
    exchange.deliver(exchange.worker.snapshot(one))
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.did() == [EndSubscription(one)]
