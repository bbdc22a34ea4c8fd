"""Subscriptions that want the same bytes share one encoding; what one of them chose ends with it."""

from collections import Counter
from typing import ClassVar

from msgspec import Struct

from services.gateway.core.delivery.effects import EndSubscription
from tests.property.delivery_model import QUERY_ID, PlainEncoder, Refused
from tests.unit.gateway.delivery_harness import Exchange


class CountingEncoder(Struct, frozen=True):
    """Counts how often it encodes, over all equal ones."""

    name: str
    times: ClassVar[Counter] = Counter()

    def update(self, update, lsn):
        CountingEncoder.times[self.name] += 1
        return PlainEncoder().update(update, lsn)

    def acknowledgement(self, subscription, tables, key_positions):
        return PlainEncoder().acknowledgement(subscription, tables, key_positions)


def test_an_update_is_encoded_once_for_all_subscriptions_that_want_the_same_bytes():
    """Also for those who catch up from the same step, and for a large result, which goes out one by one."""
    exchange = Exchange()
    CountingEncoder.times.clear()
    exchange.worker.rows.update([(b"0", b"x" * 40_000)])
    for number in range(30):
        name = f"c{number}"
        exchange.client(name)
        exchange.encoders[name] = CountingEncoder("even" if number % 2 == 0 else "odd")
        exchange.expect(name)
    waiting = [one for client in exchange.subscriptions._connections.values() for one in client.subscriptions]
    for subscription in waiting[:-1]:
        exchange.client(f"c{waiting.index(subscription)}").congested = True
        exchange.deliver(exchange.worker.snapshot(subscription))
    for client in exchange.clients.values():
        client.congested = False
    exchange.deliver(exchange.worker.snapshot(waiting[-1]))
    assert CountingEncoder.times == {"even": 1, "odd": 1}
    exchange.deliver(exchange.worker.change({(b"1", b"a"): 1}))
    assert CountingEncoder.times == {"even": 2, "odd": 2}
    for number, subscription in enumerate(waiting):
        exchange.subscriptions.pause(subscription, f"c{number}")
    exchange.deliver(exchange.worker.change({(b"2", b"a"): 1}))
    assert CountingEncoder.times == {"even": 2, "odd": 2}
    for number, subscription in enumerate(waiting):
        exchange.subscriptions.resume(subscription, f"c{number}")
    exchange.deliver(exchange.worker.change({(b"3", b"a"): 1}))
    assert CountingEncoder.times == {"even": 3, "odd": 3}
    assert all(
        client.held[one].rows == exchange.worker.rows for client in exchange.clients.values() for one in client.held
    )


def test_what_a_client_chose_for_its_encoder_is_forgotten_with_its_subscription():
    exchange = Exchange()
    exchange.subscribed("stays")
    for option in range(50):
        exchange.encoders["c"] = PlainEncoder(option=option)
        one = exchange.subscribed()
        exchange.subscriptions.remove(one, "c")
    assert len(exchange.subscriptions._queries[QUERY_ID].current) == 1


def test_how_far_the_workers_are_is_the_latest_state_of_any_query():
    exchange = Exchange()
    assert exchange.subscriptions.evaluated is None
    exchange.subscribed()
    late = exchange.worker.change({(b"1", b"a"): 1})
    exchange.deliver(exchange.worker.change({}))
    exchange.deliver(late)
    assert exchange.subscriptions.evaluated == exchange.worker.lsn


def test_a_subscription_ends_when_the_credentials_that_it_was_made_with_expire():
    exchange = Exchange()
    short, long, ever = (exchange.subscribed("c", expires_s=at) for at in (100.0, 200.0, None))
    exchange.perform(exchange.subscriptions.end_expired(99.0))
    assert (exchange.did(), len(exchange.subscriptions)) == ([], 3)
    exchange.perform(exchange.subscriptions.end_expired(100.0))
    assert exchange.told(short) == [Refused(short, "Subscription ended: the credentials have expired")]
    assert exchange.did() == [EndSubscription(short)]
    exchange.subscriptions.remove(long, "c")
    exchange.perform(exchange.subscriptions.end_expired(1e9))
    assert (exchange.did(), exchange.told(ever), len(exchange.subscriptions)) == ([], [], 1)
