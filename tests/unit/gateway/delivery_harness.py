"""The delivery core with a worker before it and clients behind it."""

from uuid import UUID, uuid4

from services.gateway.core.delivery.effects import Acknowledge, SendBatch, SendRefusal
from services.gateway.core.delivery.ring import RingLimits
from services.gateway.core.delivery.subscriptions import DeliveryLimits, Subscriptions
from tests.property.delivery_model import Ack, Client, Data, PlainEncoder, Worker


class Exchange:
    """The subscriptions of a gateway, a worker, and what each client was sent since it was last looked at."""

    def __init__(self, *, keyed=True, **limits):
        rings = RingLimits(**limits.pop("rings", {}))
        self.subscriptions = Subscriptions(DeliveryLimits(rings=rings, **limits))
        self.worker = Worker(keyed=keyed)
        self.clients: dict[str, Client] = {}
        self.encoders: dict[str, PlainEncoder] = {}
        self.others = []

    def client(self, name="c", *, wants_lsn=False):
        if name not in self.clients:
            self.clients[name] = Client(keyed=self.worker.keyed)
            self.encoders[name] = PlainEncoder(wants_lsn)
            self.subscriptions.open(name, self.clients[name])
        return self.clients[name]

    def expect(self, name="c", tables=1, **options) -> UUID:
        self.client(name)
        subscription = uuid4()
        self.subscriptions.add(subscription, name, self.encoders[name], tables=tables, **options)
        return subscription

    def subscribed(self, name="c", **options) -> UUID:
        subscription = self.expect(name, **options)
        self.deliver(self.worker.snapshot(subscription))
        assert [type(one) for one in self.told(subscription)] == [Ack, Data]
        return subscription

    def deliver(self, records):
        for record in records:
            self.perform(self.subscriptions.deliver(record))

    def perform(self, effects):
        self.others += perform(effects)

    def told(self, subscription):
        """What came for the subscription since the last look."""
        for client in self.clients.values():
            if subscription in client.held:
                found, client.held[subscription].messages = client.held[subscription].messages, []
                return found
        return []

    def did(self):
        """What else was to be done since the last look."""
        found, self.others = self.others, []
        return found


def perform(effects):
    """Send what is to be sent; the effects that are not about clients are returned."""
    others = []
    for effect in effects:
        match effect:
            case SendBatch(batch=batch, to=to):
                for one in to:
                    one.connection.outlet.send(batch.encoded.addressed(one.id_bytes))
            case Acknowledge(subscription=one, key_positions=key_positions):
                one.connection.outlet.send(one.encoder.acknowledgement(one.id_bytes, one.tables, key_positions))
            case SendRefusal(subscription=one, refusal=refusal):
                one.connection.outlet.send(one.encoder.refusal(one.id_bytes, refusal))
            case _:
                others.append(effect)
    return others
