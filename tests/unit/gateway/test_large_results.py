"""What may fill a connection goes out once at a time, however many of its subscriptions are to get it: law 6."""

from uuid import uuid4

from services.gateway.core.delivery.effects import RequestSnapshot
from tests.property.delivery_model import QUERY_ID, Update
from tests.unit.gateway.delivery_harness import Exchange

LARGE = b"x" * 40_000


def fillable(exchange):
    """A client that a large message fills, and the lengths of all that it was sent."""
    client, sent = exchange.client(), []

    def send(messages, send=client.send):
        send(messages)
        sent.append(sum(len(value) for one in messages for row in getattr(one, "rows", ()) for value in row))
        client.congested = sent[-1] > 32_768

    client.send = send
    return client, sent


def test_a_connection_that_a_large_result_fills_gets_the_next_one_when_it_is_drained():
    """However many subscriptions of one connection wait for it, the connection holds one of it."""
    exchange = Exchange()
    exchange.worker.rows.update([(b"1", LARGE)])
    subscriptions = [exchange.expect() for _ in range(3)]
    client, sent = fillable(exchange)
    exchange.deliver(exchange.worker.full())
    for subscription in subscriptions:
        exchange.deliver(exchange.worker.snapshot(subscription))
    assert sum(length > 32_768 for length in sent) == 1
    for number in (2, 3):
        client.congested = False
        exchange.perform(exchange.subscriptions.drained("c"))
        assert exchange.did() == [RequestSnapshot(QUERY_ID)]
        exchange.deliver(exchange.worker.snapshot(uuid4()))
        assert sum(length > 32_768 for length in sent) == number
    assert [len(exchange.told(subscription)) for subscription in subscriptions] == [2, 2, 2]


def test_a_connection_that_a_large_change_fills_gets_it_for_the_next_subscription_when_it_is_drained():
    exchange = Exchange()
    subscriptions = [exchange.subscribed() for _ in range(3)]
    client, sent = fillable(exchange)
    exchange.deliver(exchange.worker.change({(b"1", LARGE): 1}))
    for number in (1, 2, 3):
        assert sum(length > 32_768 for length in sent) == number
        client.congested = False
        exchange.perform(exchange.subscriptions.drained("c"))
    assert [[one.update for one in exchange.told(subscription)] for subscription in subscriptions] == [
        [Update.INSERT],
        [Update.INSERT],
        [Update.INSERT],
    ]
    assert (exchange.did(), exchange.subscriptions.ring_bytes) == ([], 0)
